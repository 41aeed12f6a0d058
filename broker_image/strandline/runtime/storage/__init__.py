"""The replicas of a broker on disk, from their loading to the last fsync."""
