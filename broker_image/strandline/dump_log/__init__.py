"""Prints what lies in a broker's logs, for people and for the checker."""
