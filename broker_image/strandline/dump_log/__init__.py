"""Prints the records of a broker's logs, for people and for the checker."""
