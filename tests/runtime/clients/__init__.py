"""Tests of strandline.runtime.clients."""
