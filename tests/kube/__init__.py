"""Tests of strandline.kube."""
