"""Tests of strandline.runtime.event_loop."""
