"""How many files the process may hold open, and how many its replicas and clients may need.

The soft limit of a shell or a container is often 1,024, for programs that use select(2). A broker
holds the last segment of each replica open, so it takes what the hard limit allows.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

from strandline.config.broker import BrokerConfig
from strandline.log_fields import fields
from strandline.runtime.clients.consumer_fetches import RANGE_MIN_BYTES

FILES_MAX: Final = 1 << 20
"""More than this is not asked for: some machines have a hard limit of a thousand million."""
OTHER_FILES: Final = 256
"""Files of logs and checkpoints under way, streams of other brokers, and the interpreter's own."""

_log = logging.getLogger(__name__)


def raise_file_limit() -> int:
    """Raise the limit of open files to the hard limit, FILES_MAX at most; return what it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return FILES_MAX if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def files_needed(config: BrokerConfig, *, replicas: int) -> int:
    """Return how many files so many replicas and the most clients allowed may hold open."""
    connections = config.kafka.connections_max + config.kubernetes.connections_max
    # A connection that is sent records from files has a second descriptor meanwhile.
    sent = config.kafka.connections_max + config.kafka.response_memory_max_bytes // RANGE_MIN_BYTES
    return replicas + config.storage.open_segments_max + connections + sent + OTHER_FILES


def tell_of_too_few_files(config: BrokerConfig, *, replicas: int) -> None:
    """Warn if the limit of open files is lower than what replicas and clients may need."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = files_needed(config, replicas=replicas)
    if limit != resource.RLIM_INFINITY and limit < needed:
        cause = "raise the hard limit of open files, or lower max.connections"
        _log.warning(
            "too few open files allowed",
            extra=fields(limit=limit, needed=needed, partitions=replicas, cause=cause),
        )
