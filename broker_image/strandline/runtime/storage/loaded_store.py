"""The logs that a broker opens and recovers before it registers.

Loaded by `registration` once per process; `broker_service` is built on it afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from strandline.config.storage import StorageConfig
from strandline.log.data_directory import DataDirectory
from strandline.log.log_segments import LogEnvironment
from strandline.log.recovery import LoadedLogs, load_logs
from strandline.log.segment import LogLimits, SegmentPool
from strandline.log.state_file import BrokerState
from strandline.log.trash import trashed_replicas
from strandline.log_fields import fields
from strandline.model import TrashedReplica

from .page_window import PageWindow

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedStore:
    """A data directory as found at start: its state file, its open logs, what its trash holds."""

    directory: DataDirectory
    state: BrokerState
    environment: LogEnvironment
    found: LoadedLogs
    trashed: tuple[TrashedReplica, ...] = ()


def log_environment(config: StorageConfig, on_flush: Callable[[float], None]) -> LogEnvironment:
    """Return what all logs of a broker share; on_flush gets the seconds of each fsync."""
    environment = LogEnvironment(
        pool=SegmentPool(open_segments_max=config.open_segments_max),
        limits=LogLimits(
            index_interval_bytes=config.index_interval_bytes,
            index_size_max_bytes=config.index_size_max_bytes,
            unflushed_segments_max=config.unflushed_segments_max,
        ),
        on_flush=on_flush,
    )
    if not config.page_window_bytes:
        return environment
    window = PageWindow(window_bytes=config.page_window_bytes)
    return replace(environment, on_append=window.note)


def load_store(
    directory: DataDirectory,
    state: BrokerState,
    environment: LogEnvironment,
    *,
    clean: bool,
    before_loss: Callable[[], None],
    on_remaining: Callable[[int], None] = lambda _: None,
) -> LoadedStore:
    """Open every log; blocking. Findings are logged, and their files kept; see `load_logs`."""
    found = load_logs(
        directory.path,
        clean=clean,
        persisted=state.partitions,
        environment=environment,
        before_loss=before_loss,
        on_remaining=on_remaining,
    )
    for warning in found.warnings:
        _log.warning("log loaded with a finding", extra=fields(finding=warning))
    _log.info("logs loaded", extra=fields(partitions=len(found.logs), clean=clean))
    return LoadedStore(
        directory=directory,
        state=state,
        environment=environment,
        found=found,
        trashed=trashed_replicas(directory.path),
    )
