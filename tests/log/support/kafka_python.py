"""kafka-python's batch encoder and decoder, which our own are compared with."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # kafka-python reads its own schemas in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

__all__ = ["DefaultRecordBatch", "DefaultRecordBatchBuilder"]
