"""Tests of strandline.runtime.observability."""
