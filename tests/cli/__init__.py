"""Tests of the commands for people."""
