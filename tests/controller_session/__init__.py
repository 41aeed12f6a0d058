"""Unit tests of the controller session, one file per source file."""
