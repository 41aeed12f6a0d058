"""Tests that take many minutes."""
