"""Tests of strandline.runtime."""
