"""Conditions of a running listener and its broker, for tests of connections."""

from __future__ import annotations

from strandline.kafka_listener import schemas
from tests.kafka.support import ListenerThread, MemoryBroker
from tests.kafka.wire_client import WireClient


def is_serving(running: ListenerThread) -> bool:
    with WireClient(running.port) as client:
        return bool(client.ask(schemas.API_VERSIONS, 0, {})["api_keys"])


def has_held(broker: MemoryBroker, count: int) -> bool:
    return len(broker.held_acks or ()) >= count


def acknowledge(running: ListenerThread, broker: MemoryBroker, index: int) -> None:
    assert broker.held_acks is not None
    running.call(broker.held_acks[index])
