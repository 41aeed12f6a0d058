"""The replicas of a broker on disk, from loading to the last fsync."""
