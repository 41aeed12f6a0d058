"""Tests of the messages between brokers."""
