"""The figures of a load without an end outlive its pod: they lie in the topic that it writes.

A volume would keep the next pod from another node, and a pod has no right to write objects. So the
load writes its figures as a record into the first partition from time to time, and the next pod
looks for the newest one. What happened after it is not known: up to PERIOD_MS of records if a pod
was killed, nothing if it was told to end.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from .load_consumer import CONNECTION, OFFSETS_SECONDS, QUEUE_MAX
from .load_figures import FIGURES_MARK

State = dict[str, Any]
PARTITION: Final = 0
PERIOD_MS: Final = 5_000
"""Between two records of figures: a topic that somebody named may keep them for ever."""
LOOKED_AT_MAX: Final = 20_000
"""Newest records of the partition among which figures are looked for. A load writes at most 1,000 a
second into a partition, so its own last figures are among them unless others write as well."""
LOOK_SECONDS: Final = 30.0


class FiguresRecords:
    """Writes the figures of the load of this id, one record at a time."""

    def __init__(self, producer: Producer, topic: str, load_id: str) -> None:
        self._producer = producer
        self._topic = topic
        self._mark = f"{FIGURES_MARK}{load_id} "
        self._written_ms: float | None = None
        self._is_pending = False

    def is_due(self, now_ms: float) -> bool:
        """Tell whether it is time to write again; never while a record is on its way."""
        if self._is_pending:
            return False
        return self._written_ms is None or now_ms - self._written_ms >= PERIOD_MS

    def write(self, state: State, now_ms: float) -> None:
        """Hand a record to the library, which holds no more than one of them."""
        value = (self._mark + json.dumps(state)).encode()
        self._written_ms, self._is_pending = now_ms, True
        try:
            self._producer.produce(self._topic, value, partition=PARTITION, on_delivery=self._done)
        except BufferError:
            self._is_pending = False

    def _done(self, _error: KafkaError | None, _message: Message) -> None:
        self._is_pending = False


def newest_figures(bootstrap: str, topic: str, load_id: str) -> State | None:
    """Return the figures that a load of this id wrote last, None if none are found.

    Raises:  KafkaException if nobody tells where the partition ends
    """
    consumer = Consumer(
        {
            **CONNECTION,
            **QUEUE_MAX,
            "bootstrap.servers": bootstrap,
            # The library demands a name; without subscribe or commit no group is joined.
            "group.id": f"{load_id}-figures",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        where = TopicPartition(topic, PARTITION)
        found = consumer.get_watermark_offsets(where, timeout=OFFSETS_SECONDS)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        return _newest(consumer, topic, load_id, found)
    finally:
        consumer.close()


def _newest(consumer: Consumer, topic: str, load_id: str, bounds: tuple[int, int]) -> State | None:
    begin, end = bounds
    mark, found = f"{FIGURES_MARK}{load_id} ".encode(), None
    at = max(begin, end - LOOKED_AT_MAX)
    consumer.assign([TopicPartition(topic, PARTITION, at)])
    deadline = time.monotonic() + LOOK_SECONDS
    while at < end and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None or message.error() is not None:
            continue
        content, offset = message.value(), message.offset()
        at = at if offset is None else offset + 1
        if isinstance(content, bytes) and content.startswith(mark):
            found = content
    if found is None:
        return None
    state: State = json.loads(found.removeprefix(mark))
    return state
