"""Tests of the pure controller."""
