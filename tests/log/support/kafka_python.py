"""kafka-python's batch encoder and decoder, the outside judge of ours."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It reads its own schemas in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

__all__ = ["DefaultRecordBatch", "DefaultRecordBatchBuilder"]
