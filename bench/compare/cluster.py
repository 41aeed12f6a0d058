"""A cluster of three brokers on loopback, as the comparison uses it, whichever program it runs.

What differs between the two programs is abstract here; topics' replicas and leaders are read the
same way from both, by librdkafka's Metadata requests.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

BROKERS: Final = 3
FORMED_SECONDS: Final = 180
"""Bound of a start, of a new topic of 2,000 partitions, and of the return of a killed broker."""
LOOK_SECONDS: Final = 0.05
METADATA_SECONDS: Final = 10


class NotFormed(Exception):
    """A cluster did not become what the comparison needs in time."""


class Cluster(ABC):
    """Three brokers; `name` is the column of the tables."""

    name: str

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Return the addresses of all brokers; a restart keeps them."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Return the processes of the brokers that run."""

    @abstractmethod
    def pids_beside(self) -> list[int]:
        """Return further processes that this cluster needs."""

    @abstractmethod
    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic of three replicas and min ISR 2 and wait until every ISR is full."""

    @abstractmethod
    def delete_topic(self, name: str) -> None:
        """Delete a topic and its logs."""

    @abstractmethod
    def controller(self) -> int:
        """Return the broker that is the controller now."""

    @abstractmethod
    def kill(self, broker: int) -> None:
        """End a broker with SIGKILL."""

    @abstractmethod
    def start(self) -> None:
        """Start every broker that does not run; they may not be ready yet."""

    @abstractmethod
    def stop(self) -> None:
        """End all processes in order, and whatever else was made."""

    def leaders(self, topic: str, *, admin: AdminClient | None = None) -> dict[int, int]:
        """Return the leader of each partition that a broker tells of, -1 for none."""
        asked = admin or self.admin()
        found = asked.list_topics(topic, timeout=METADATA_SECONDS).topics[topic].partitions
        return {number: each.leader for number, each in found.items()}

    def wait_full(self, topic: str, partitions: int) -> None:
        """Wait until each partition has a leader and three replicas in sync."""
        admin = self.admin()

        def is_full() -> bool:
            found = admin.list_topics(topic, timeout=METADATA_SECONDS).topics[topic].partitions
            full = [e for e in found.values() if e.leader >= 0 and len(e.isrs) == BROKERS]
            return len(full) == partitions

        wait(is_full, f"{self.name}: {partitions} partitions of {topic} in sync")

    def admin(self) -> AdminClient:
        """Return a new client, which knows nothing of former leaders."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


def wait(condition: Callable[[], bool], what: str, seconds: float = FORMED_SECONDS) -> None:
    """Wait for a condition; a client may not reach the cluster yet, or not know the topic.

    Raises:  NotFormed after the bound
    """
    ends = time.monotonic() + seconds
    last: Exception | None = None
    while time.monotonic() < ends:
        try:
            if condition():
                return
        except (KafkaException, LookupError) as error:
            last = error
        time.sleep(LOOK_SECONDS)
    raise NotFormed(f"not within {seconds:g} s: {what}") from last
