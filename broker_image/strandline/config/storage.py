"""The data directory, segments and their indexes."""

from __future__ import annotations

from dataclasses import dataclass

from .declaration import INT64_MAX, Applies, fraction, integer, text

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerReadConfig:
    """How records are read for consumers."""

    threads_max: int = integer("consumer.read.threads", 4, (1, 256))
    """Threads that read for consumers what is not in memory. Each waits for one disk read at a
    time; further fetches wait for a thread, in the order of their coming."""

    on_loop_max_bytes: int = integer("consumer.read.on.loop.max.bytes", _MIB, (0, 64 * _MIB))
    """A read of recent records up to this size stays on the event loop: copying 1 MiB takes about
    0.2 ms, as long as the hand-over to a thread and back. A larger or older one takes a thread
    where the disk has to be asked."""

    recent_bytes: int = integer("consumer.read.recent.bytes", 8 * _MIB, (0, 1 << 40))
    """The last bytes of a log's last segment count as recent: the broker wrote them a moment ago,
    so the page cache holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """One data directory per broker."""

    data_dir: str = text("log.dir", "/var/lib/strandline", minimum=1)
    """Data directory. Kafka's key; the environment variable DATA_DIR overrides it."""

    boot_id_path: str = text("boot.id.path", "/proc/sys/kernel/random/boot_id")
    """File that names the boot of the machine. In the same boot the page cache survived, so a
    killed broker lost nothing. If the file is unreadable or empty, every start without a
    clean-shutdown marker counts as unclean."""

    fill_max: float = fraction(
        "log.dir.fill.max", 0.9, (0.1, 1.0), since=2, applies=Applies.RUNNING
    )
    """Part of the volume that may be full before records of clients are refused; followers go on
    up to the middle between it and a full volume. Brokers that share a file system share its
    figure. Kafka has no such bound: there a full disk fails the log directory."""

    index_interval_bytes: int = integer("log.index.interval.bytes", 4096, (64, 1 << 30))
    """Bytes of log between two entries of an offset index. Kafka's key and default."""

    index_size_max_bytes: int = integer("log.index.size.max.bytes", 10 << 20, (1024, 1 << 30))
    """A full index rolls its segment. Kafka's key and default."""

    retention_check_interval_ms: int = integer(
        "log.retention.check.interval.ms",
        300_000,
        (100, 86_400_000),
        since=2,
        applies=Applies.RUNNING,
    )
    """How often a broker looks for segments that are past their topic's retention, and closes those
    that are past segment.ms; a change causes a look, too. Kafka's key and default."""

    open_segments_max: int = integer("log.open.segments.max", 512, (10, 1 << 20))
    """Sealed segments that all logs together keep open, each with its index; beyond them the
    least recently read one is closed."""

    unflushed_segments_max: int = integer("log.unflushed.segments.max", 8, (1, 1024))
    """Sealed segments of one log that may wait for an fsync, each an open file. While so many
    wait, the last segment takes more than its size, up to 2 GiB."""

    flush_checkpoint_interval_ms: int = integer(
        "log.flush.offset.checkpoint.interval.ms", 60_000, (100, 86_400_000)
    )
    """How often logs that were written are brought to disk in the background and their recovery
    points move; a start reads what was written since. Kafka's key and default, where the fsync is
    left to the kernel."""

    page_window_bytes: int = integer("log.page.window.bytes", 0, (0, 1 << 40), since=6)
    """Bytes that the broker wrote last and keeps in the page cache, of all logs together; what it
    wrote before leaves the cache once it is on disk. Make it larger than what followers and
    consumers are behind: they read the rest from disk. Default 0: the kernel decides."""

    trash_retention_ms: int = integer(
        "log.trash.retention.ms", 604_800_000, (0, INT64_MAX), since=2, applies=Applies.RUNNING
    )
    """How long a deleted log can be brought back; default 7 days, so that what was deleted before
    a weekend or a holiday is still there when its owner looks."""

    trash_retention_bytes: int = integer(
        "log.trash.retention.bytes", -1, (-1, INT64_MAX), since=2, applies=Applies.RUNNING
    )
    """Bytes of deleted logs to keep; beyond them the log deleted first is removed. Default -1: a
    quarter of the volume, so that a deletion also makes room on a volume that is nearly full."""

    trash_check_interval_ms: int = integer("log.trash.check.interval.ms", 60_000, (100, 86_400_000))
    """Longest time between two looks at the trash; a deletion causes one, too."""
