"""The log of a partition on disk: record batches, segments, checkpoints, recovery.

Called by `runtime`, and by the tools of `strandline_cli` that read a log. Knows no role, epoch
rule or in-sync set: it stores what it is told to store, and says what it holds. Record bytes are
never decoded.
"""
