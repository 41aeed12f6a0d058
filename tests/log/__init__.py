"""Tests of the log: batches, segments, checkpoints, recovery, producers."""
