"""Tests of the dump of logs."""
