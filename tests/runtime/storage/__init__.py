"""Tests of strandline.runtime.storage."""
