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
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Producer

FLUSH_SECONDS: Final = 300
SETTLE_SECONDS: Final = 2.0
"""Least time from a fault to the end of the trial."""
GAP_LIMIT_SECONDS: Final = 90
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


class _Acks:
    """The acknowledgements of each partition: how long none came, seen from a fault on."""

    def __init__(self, partitions: int) -> None:
        self.last = [0.0] * partitions
        self.longest = [0.0] * partitions
        self.served = [False] * partitions
        """Whether a record that was sent after the fault was acknowledged."""
        self.fault_at: float | None = None

    def note(self, partition: int, sent_at: float) -> None:
        """Note the acknowledgement of a record."""
        now, last = time.monotonic(), self.last[partition]
        if self.fault_at is not None and last:
            self.longest[partition] = max(self.longest[partition], now - last)
            self.served[partition] |= sent_at > self.fault_at
        self.last[partition] = now


def gap(bootstrap: str, topic: str, partitions: int, rate: int) -> Any:
    """Produce to each partition at a rate; print "ready", and wait for a line that tells a fault.

    Returns:  the longest time without an ack of any partition that ends after the fault, seconds
    """
    acks, producer = _Acks(partitions), _producer(bootstrap)
    told = threading.Thread(target=sys.stdin.readline, daemon=True)
    told.start()
    ends, said = time.monotonic() + GAP_LIMIT_SECONDS, False
    for number in itertools.count():
        now, partition = time.monotonic(), number % partitions

        def on_delivery(error: Any, _: Any, partition: int = partition, now: float = now) -> None:
            if error is None:
                acks.note(partition, now)

        with suppress(BufferError):
            producer.produce(topic, bytes(100), partition=partition, on_delivery=on_delivery)
        producer.poll(1 / (rate * partitions))
        if not said and all(acks.last):
            said = True
            sys.stdout.write("ready\n")
            sys.stdout.flush()
        if not told.is_alive() and acks.fault_at is None:
            acks.fault_at = now
        if acks.fault_at is not None and all(acks.served) and now - acks.fault_at > SETTLE_SECONDS:
            return {"gap": max(acks.longest)}
        if now > ends:
            break
    raise NotAcknowledged(f"{acks.served.count(False)} of {partitions} partitions after the fault")


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
    each.__name__: each for each in (latency, gap, first_ack)
}

if __name__ == "__main__":
    print(json.dumps(TRIALS[sys.argv[1]](**json.loads(sys.argv[2]))))
