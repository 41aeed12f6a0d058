"""Unit tests of the replication core, one file per source file."""
