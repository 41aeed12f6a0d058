"""Tests of strandline.config."""
