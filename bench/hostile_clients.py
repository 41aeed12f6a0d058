"""What ordinary clients feel beside hostile ones: `python -m bench.hostile_clients`.

One broker, a producer and a consumer at a steady rate, and one hostile client that sends every
shape of tests/kafka/hostile_shapes.py, one after the other without a pause, from an address of its
own. Windows with and
without the hostile client alternate, so that the ratio is one of a single run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from strandline.kafka_listener.listener_settings import ListenerSettings
from tests.kafka.hostile_shapes import all_shapes

from .report import host_info
from .running_brokers import create_topic, running_brokers

TOPIC = "orders"
"""That of the shapes, so that those with a real partition reach one."""
RATE = 200
"""Records a second; one every 5 ms."""
VALUE_BYTES = 1_000
RESPONSE_LIMIT_SECONDS = 2.0
"""How long the hostile client waits for a response before it sends its next shape."""
SETTLE_SECONDS = 2.0
"""Pause before a window without the hostile client: what it has sent is handled by then."""
HOSTILE_ADDRESS = "127.0.0.2"
AIM_RATIO = 2.0


@dataclass(slots=True)
class Latencies:
    """Seconds from the send of a record to its acknowledgement, and to its consumer."""

    acked: list[float] = field(default_factory=list)
    consumed: list[float] = field(default_factory=list)

    def clear(self) -> None:
        """Begin a window."""
        self.acked, self.consumed = [], []


class SteadyClients:
    """A producer and a consumer at a steady rate, each in a thread."""

    def __init__(self, bootstrap: str) -> None:
        self.latencies = Latencies()
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
        )
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, OFFSET_END)])
        self._threads = [threading.Thread(target=run) for run in (self._produce, self._consume)]

    def start(self) -> None:
        """Begin both."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._producer.flush(10)
        self._consumer.close()

    def _produce(self) -> None:
        value = bytes(VALUE_BYTES - 8)
        due = time.perf_counter()
        while not self._stopping.is_set():
            due += 1 / RATE
            while (left := due - time.perf_counter()) > 0:
                self._producer.poll(left)
            # From when it was due: a producer that is held up makes no record look fast.
            self._producer.produce(
                TOPIC, struct.pack(">d", due) + value, partition=0, on_delivery=self._acked(due)
            )
            self._producer.poll(0)

    def _acked(self, sent: float) -> Callable[..., None]:
        def done(error: object, _message: object) -> None:
            if error is not None:
                self.errors.append(str(error))
            self.latencies.acked.append(time.perf_counter() - sent)

        return done

    def _consume(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            value = None if message is None or message.error() is not None else message.value()
            if value is not None:
                (sent,) = struct.unpack(">d", value[:8])
                self.latencies.consumed.append(time.perf_counter() - sent)


def attack(port: int, may_attack: Event, is_over: Event) -> None:
    """Send one shape after another, each on a connection of its own, while it may."""
    shapes = [shape for _, shape in all_shapes(ListenerSettings().request_elements_max)]
    while not is_over.is_set():
        for shape in shapes:
            if not may_attack.wait(0.1):
                break
            with (
                suppress(OSError),
                socket.create_connection(
                    ("127.0.0.1", port), source_address=(HOSTILE_ADDRESS, 0)
                ) as client,
            ):
                client.settimeout(RESPONSE_LIMIT_SECONDS)
                client.sendall(shape)
                client.recv(1 << 16)


@contextmanager
def hostile_client(port: int) -> Iterator[Event]:
    """Provide a process that attacks while the yielded event is set."""
    context = multiprocessing.get_context("spawn")
    may_attack, is_over = context.Event(), context.Event()
    process = context.Process(target=attack, args=(port, may_attack, is_over))
    process.start()
    try:
        yield may_attack
    finally:
        is_over.set()
        may_attack.set()
        process.join()


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value that this part of all values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def measure(folder: Path | None, windows: int, seconds: float) -> None:
    """Alternate windows, and print each and the ratio of all."""
    found: dict[bool, Latencies] = {False: Latencies(), True: Latencies()}
    with running_brokers(folder, 1) as group:
        create_topic(group, TOPIC, broker=0, partitions=1, segment_bytes=1 << 30)
        clients = SteadyClients(group.bootstrap())
        with hostile_client(group.brokers[0].internal_port) as may_attack:
            clients.start()
            time.sleep(seconds)
            for number in range(2 * windows):
                is_hostile = number % 2 == 1
                if not is_hostile:
                    may_attack.clear()
                    time.sleep(SETTLE_SECONDS)
                clients.latencies.clear()
                if is_hostile:
                    may_attack.set()
                time.sleep(seconds)
                seen = clients.latencies
                found[is_hostile].acked += seen.acked
                found[is_hostile].consumed += seen.consumed
                _show("beside" if is_hostile else "alone", seen)
            clients.stop()
    if clients.errors:
        print(f"{len(clients.errors)} records were not acknowledged: {clients.errors[0]}")
    for name, with_it, without in (
        ("acked", found[True].acked, found[False].acked),
        ("consumed", found[True].consumed, found[False].consumed),
    ):
        for part in (0.5, 0.99):
            ratio = quantile(with_it, part) / quantile(without, part)
            mark = "" if part < 0.99 or ratio <= AIM_RATIO else f"  over the aim of {AIM_RATIO:g}"
            print(
                f"{f'{name}, percentile {part * 100:.0f}':30} "
                f"{quantile(without, part) * 1000:8.2f} ms alone, "
                f"{quantile(with_it, part) * 1000:8.2f} ms beside it, ratio {ratio:6.2f}, "
                f"load {os.getloadavg()[0]:.1f}{mark}"
            )


def _show(title: str, seen: Latencies) -> None:
    for name, values in (("acked", seen.acked), ("consumed", seen.consumed)):
        print(
            f"{title:8} {name:9} {len(values):5} records, median "
            f"{quantile(values, 0.5) * 1000:8.2f} ms, percentile 99 "
            f"{quantile(values, 0.99) * 1000:8.2f} ms, longest {max(values) * 1000:8.2f} ms",
            flush=True,
        )


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=5, help="windows of either kind")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a window")
    parser.add_argument("--folder", type=Path, default=None, help="a folder on the disk to use")
    options = parser.parse_args()
    print(host_info())
    measure(options.folder, options.windows, options.seconds)


if __name__ == "__main__":
    main()
