"""Tests with real processes over a real API server."""
