"""Tests of the operator: its plans as values, and its process against a real API server."""
