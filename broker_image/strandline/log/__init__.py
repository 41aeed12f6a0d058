"""The log of a partition on disk: record batches, segments, checkpoints, recovery.

Called by `runtime`, and by `dump_log`, which prints logs. Knows no role, epoch rule or in-sync
set: it stores the batches it gets, and says which offsets it holds. It never decodes record bytes.
"""
