"""Fixtures of a listener over a broker in memory, for tests that connect over loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.support import CountingObserver, ListenerThread, MemoryBroker


@pytest.fixture
def observer() -> CountingObserver:
    return CountingObserver()


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"orders": 2, "audit": 1})


@pytest.fixture
def running(broker: MemoryBroker, observer: CountingObserver) -> Iterator[ListenerThread]:
    with ListenerThread(broker, observer=observer) as listener:
        yield listener
