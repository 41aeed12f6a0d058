"""The client of the comparison, a process of its own: `python -m bench.compare.driver TRIAL JSON`.

librdkafka with its defaults, the same for both clusters, and acks=all; the bulk trials have their
own client, see `bulk`. Each trial prints one JSON object. A trial whose records were not all
acknowledged ends with an error, so that no figure comes from records that were lost on the way.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Producer

FLUSH_SECONDS: Final = 300
SETTLE_SECONDS: Final = 2.0
"""How long records are sent until their waits count, until a fault, and from a fault on."""
FAULT_LIMIT_SECONDS: Final = 90
"""Bound of the time until each partition took a record, and until a fault is told."""
FIRST_ACK_SECONDS: Final = 90
PERMILLE: Final = {"p50": 500, "p99": 990}


class NotAcknowledged(Exception):
    """A record was not acknowledged, so the trial has no figure."""


def latency(bootstrap: str, topic: str, partitions: int, rate: int, seconds: int) -> Any:
    """Produce at a rate without linger; ms from the moment a record was due to its ack.

    A record counts from when it was due, not from when it was sent: a stall counts in full.
    """
    failed: list[str] = []
    producer = _producer(bootstrap, **{"linger.ms": 0})
    taken: list[float] = []
    polling = threading.Thread(target=_poll_until, args=(producer, ends := threading.Event()))
    polling.start()
    began, warm = time.monotonic() + 0.1, 2 * rate
    for number in range(warm + rate * seconds):
        due = began + number / rate
        time.sleep(max(0.0, due - time.monotonic()))

        def on_delivery(error: Any, _: Any, due: float = due) -> None:
            if error is None:
                taken.append(1000 * (time.monotonic() - due))
            else:
                failed.append(str(error))

        producer.produce(topic, bytes(100), partition=number % partitions, on_delivery=on_delivery)
    _flush(producer, failed)
    ends.set()
    polling.join()
    taken = sorted(taken[warm:])
    return {name: taken[len(taken) * share // 1000] for name, share in PERMILLE.items()}


@dataclass(slots=True)
class _Waits:
    """How long records waited from when they were due to their ack, before and after a fault."""

    before: float = 0.0
    longest: float = 0.0
    """Of those that were not acknowledged yet when the fault was told."""
    told: bool = False
    acked: set[int] = field(default_factory=set)
    """Partitions with an acknowledgement."""
    failed: list[str] = field(default_factory=list)

    def note(self, error: Any, partition: int, due: float) -> None:
        """Note what became of a record."""
        waited = time.monotonic() - due
        if error is not None:
            self.failed.append(str(error))
            return
        self.acked.add(partition)
        if self.told:
            self.longest = max(self.longest, waited)
        else:
            self.before = max(self.before, waited)


def fault(bootstrap: str, topic: str, partitions: int, rate: int) -> Any:
    """Produce to each partition at a rate; print "ready", and wait for a line that tells a fault.

    A record counts from when it was due: what waits for a new leader counts in full, and so does
    what waits because the brokers get more than they take, which `before` shows.

    Returns:  the longest wait of a record, before the fault and from it on, seconds
    """
    waits, producer = _Waits(), _producer(bootstrap)
    heard = threading.Thread(target=sys.stdin.readline, daemon=True)
    heard.start()
    sent = _sent(producer, topic, partitions, rate, waits)
    _send_until(sent, lambda: len(waits.acked) == partitions)
    _send_for(sent, SETTLE_SECONDS)
    waits.before = 0.0  # the first records found connections and leaders
    _send_for(sent, SETTLE_SECONDS)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    _send_until(sent, lambda: not heard.is_alive())
    waits.told = True
    _send_for(sent, SETTLE_SECONDS)
    _flush(producer, waits.failed)
    return {"longest": waits.longest, "before": waits.before}


def _sent(
    producer: Producer, topic: str, partitions: int, rate: int, waits: _Waits
) -> Iterator[None]:
    """Send the next record when it is due, each time that somebody asks."""
    began = time.monotonic()
    for number in itertools.count():
        due, partition = began + number / (rate * partitions), number % partitions
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)

        def on_delivery(error: Any, _: Any, partition: int = partition, due: float = due) -> None:
            waits.note(error, partition, due)

        producer.produce(topic, bytes(100), partition=partition, on_delivery=on_delivery)
        producer.poll(0)
        yield


def _send_until(sent: Iterator[None], done: Callable[[], bool]) -> None:
    ends = time.monotonic() + FAULT_LIMIT_SECONDS
    while not done():
        next(sent)
        if time.monotonic() > ends:
            raise NotAcknowledged("a record to each partition, or no fault was told")


def _send_for(sent: Iterator[None], seconds: float) -> None:
    ends = time.monotonic() + seconds
    _send_until(sent, lambda: time.monotonic() > ends)


def first_ack(bootstrap: str, topic: str) -> Any:
    """Produce one record; wall time of its acknowledgement."""
    producer = _producer(bootstrap)
    acked: list[float] = []

    def on_delivery(error: Any, _: Any) -> None:
        if error is None:
            acked.append(time.time())

    producer.produce(topic, b"first", partition=0, on_delivery=on_delivery)
    producer.flush(FIRST_ACK_SECONDS)
    if not acked:
        raise NotAcknowledged("the first record")
    return {"at": acked[0]}


def _producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0, **settings})


def _flush(producer: Producer, failed: list[str]) -> None:
    """Wait until everything is acknowledged; NotAcknowledged where something is not."""
    left = producer.flush(FLUSH_SECONDS)
    if left or failed:
        raise NotAcknowledged(f"{left} records, {failed[:3]}")


def _poll_until(producer: Producer, ends: threading.Event) -> None:
    while not ends.is_set():
        producer.poll(0.1)


TRIALS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each for each in (latency, fault, first_ack)
}

if __name__ == "__main__":
    print(json.dumps(TRIALS[sys.argv[1]](**json.loads(sys.argv[2]))))
