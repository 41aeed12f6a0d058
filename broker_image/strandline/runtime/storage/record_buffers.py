"""Record bytes on their way past the core: it decides by request id, they wait here.

Filled for the length of one step by whoever submits the event, read by the performer of that
very step. Nothing is kept: what a step did not append is dropped with it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from strandline.broker_interface import Buffer
from strandline.errors import InvariantViolation
from strandline.model import TopicPartition

RequestPartition = tuple[int, TopicPartition]


class RecordBuffers:
    """The record bytes of the event that is being stepped."""

    def __init__(self) -> None:
        self._held: Mapping[RequestPartition, Buffer] = {}

    @contextmanager
    def held(self, buffers: Mapping[RequestPartition, Buffer]) -> Generator[None]:
        """Hold buffers while an event is submitted; submissions that carry any never nest."""
        if self._held:
            raise InvariantViolation(
                "one event with record buffers at a time", held=len(self._held)
            )
        self._held = buffers
        try:
            yield
        finally:
            self._held = {}

    def take(self, request_id: int, tp: TopicPartition) -> Buffer:
        """Return the bytes that came with the event."""
        try:
            return self._held[request_id, tp]
        except KeyError:
            raise InvariantViolation(
                "what is appended came with the event", request_id=request_id, partition=str(tp)
            ) from None
