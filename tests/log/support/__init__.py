"""Helpers for the tests of the log."""
