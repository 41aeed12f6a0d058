"""Tests of strandline.runtime.process."""
