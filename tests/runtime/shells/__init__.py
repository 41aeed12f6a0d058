"""Tests of strandline.runtime.shells."""
