"""Tests of what travels between brokers."""
