"""A broker with 10 GiB: how soon it starts, and how fast consumers catch up.

`python -m bench.full_broker` fills the logs of one broker process through the log's own code, cold:
the page cache forgets the logs before each start. A start ends when clients are let in.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import struct
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from strandline.config.storage import StorageConfig
from strandline.log.checkpoint import HighWatermarkCheckpoint, RecoveryPointCheckpoint
from strandline.log.data_directory import DataDirectory
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import read_fetched
from strandline.model import TopicSettings
from strandline.runtime.storage.loaded_store import load_store, log_environment
from tests.log.support.batches import batch
from tests.support.broker_process import BrokerProgram

from .report import host_info
from .running_brokers import create_topic, running_brokers

BROKERS = 3
TOPIC = "bulk"
PARTITIONS = 10
GIB, MIB = 1 << 30, 1 << 20
SEGMENT_BYTES = 128 * MIB
RECORDS, VALUE_BYTES = 2, 8_000
"""A batch of 16 KB: an index entry for each."""
AT_ONCE = 64
"""Batches of one append, 1 MiB."""
TAIL_BYTES = 64 * MIB
"""Written before the kill; a part of it is not flushed yet, and a start reads that again."""
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
AIM_SECONDS = 3.0
CONSUMERS = (1, 4)


def fill(root: Path, size_bytes: int) -> None:
    """Fill the logs of a broker that stopped cleanly, as a leader would have, and flush them."""
    directory = DataDirectory.open(root)
    loaded = load_store(
        directory,
        directory.read_state(),
        log_environment(StorageConfig(), lambda _seconds: None),
        clean=True,
        before_loss=lambda: None,
    )
    logs = loaded.found.logs
    for log in logs.values():
        log.apply_settings(TopicSettings(segment_bytes=SEGMENT_BYTES))
        _fill_log(log, size_bytes // len(logs))
        log.close()
    RecoveryPointCheckpoint(root).write({tp: log.recovery_point for tp, log in logs.items()})
    HighWatermarkCheckpoint(root).write({tp: log.log_end_offset for tp, log in logs.items()})
    directory.close()


def _fill_log(log: PartitionLog, size_bytes: int) -> None:
    one = batch([bytes(VALUE_BYTES)] * RECORDS)
    many = bytearray(one * AT_ONCE)
    while log.size_bytes < size_bytes:
        for number in range(AT_ONCE):
            at, offset = number * len(one), log.log_end_offset + number * RECORDS
            # Base offset and leader epoch lie outside the CRC.
            struct.pack_into(">q", many, at, offset)
            struct.pack_into(">i", many, at + 12, 0)
        log.append_as_follower(read_fetched(bytes(many)), batch_count=AT_ONCE)
        if log.sealed_waiting:
            _flush(log)
    _flush(log)


def _flush(log: PartitionLog) -> None:
    flush = log.begin_flush()
    if flush is not None:
        flush.run()
        log.end_flush(flush)


def forget_pages(root: Path) -> None:
    """Have the page cache forget every file of a data directory."""
    for path in root.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def start(broker: BrokerProgram, title: str) -> None:
    """Start a broker whose logs are cold, and report when it registered and when it served."""
    forget_pages(broker.data_dir)
    broker.start()
    line = broker.wait_for("registered")
    registered = time.monotonic() - broker.started_at
    broker.wait_for("kafka listener open")
    served, used = time.monotonic() - broker.started_at, cpu_seconds(broker)
    mark = "" if served <= AIM_SECONDS else f"  over the aim of {AIM_SECONDS:.0f} s"
    print(
        f"{title:44} registered {registered:5.2f} s, clients served {served:5.2f} s "
        f"(CPU {used:5.2f} s), evidence {line['evidence']}, load {os.getloadavg()[0]:.1f}{mark}",
        flush=True,
    )


def stop_and_reboot(broker: BrokerProgram, boot: int) -> None:
    """Stop in an orderly way; the next start has another boot id and trusts the marker alone."""
    if broker.stop():
        raise RuntimeError("the broker did not stop in an orderly way")
    broker.boot(boot)


def write_tail(bootstrap: str) -> None:
    """Write some MiB more to every partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(TAIL_BYTES // VALUE_BYTES):
        producer.produce(TOPIC, bytes(VALUE_BYTES), partition=number % PARTITIONS)
        producer.poll(0)
        if number % 1_000 == 0:
            producer.flush(30)
    if producer.flush(30):
        raise TimeoutError("the broker did not acknowledge the tail")


def catch_up(bootstrap: str, seconds: float) -> int:
    """Read all partitions from their start for so long; return the bytes of values."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    size, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for message in consumer.consume(500, timeout=0.1):
            size += len(message.value() or b"")
    consumer.close()
    return size


def consume(broker: BrokerProgram, bootstrap: str, count: int, seconds: float) -> None:
    """Let consumers read at once, each in a process of its own, and report their throughput."""
    before = cpu_seconds(broker)
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        found = pool.starmap(catch_up, [(bootstrap, seconds)] * count)
    used, megabytes = cpu_seconds(broker) - before, sum(found) / 1e6
    print(
        f"{f'{count} late consumers':44} {megabytes / seconds:7.0f} MB/s, "
        f"{used * 1000 / megabytes:5.2f} ms of the broker's CPU per MB, "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def cpu_seconds(broker: BrokerProgram) -> float:
    """Return the CPU time of a broker's process."""
    stat = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / CLOCK_TICKS


def measure(folder: Path | None, gib: float, seconds: float) -> None:
    """Fill a broker, start it three times, and let consumers read."""
    with running_brokers(folder, BROKERS) as group:
        # A dead controller would add the time until another broker holds the Lease.
        number = (group.controller() + 1) % BROKERS
        broker = group.brokers[number]
        create_topic(
            group, TOPIC, broker=number, partitions=PARTITIONS, segment_bytes=SEGMENT_BYTES
        )
        stop_and_reboot(broker, 2)
        start(broker, "clean start, empty logs")
        stop_and_reboot(broker, 3)
        begun = time.monotonic()
        fill(broker.data_dir, int(gib * GIB))
        print(f"{f'{gib:g} GiB written and flushed':44} {time.monotonic() - begun:8.1f} s")
        start(broker, f"clean start, {gib:g} GiB")
        broker.kill()
        start(broker, "after kill -9 on the same boot")
        write_tail(group.bootstrap())
        broker.kill()
        start(broker, f"the same, {TAIL_BYTES // MIB} MiB just written")
        for count in CONSUMERS:
            forget_pages(broker.data_dir)
            consume(broker, group.bootstrap(), count, seconds)


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=10.0, help="size of all logs together")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long consumers read")
    parser.add_argument("--folder", type=Path, default=None, help="a folder on the disk to measure")
    options = parser.parse_args()
    print(host_info())
    measure(options.folder, options.gib, options.seconds)


if __name__ == "__main__":
    main()
