"""When the preferred leader of a partition, the first of its replicas, leads again.

`partition_reconciler` asks when nothing else about a partition must be written. The preferred
leader leads once it could do so for long enough, or at once if a person asks for it. A wish names
the leader epoch that the person saw: any election ends it, and nobody has to take it back.

Only a member of the ISR in session with room on its volume is elected, as in any move of a
leadership, and the ISR stays as it is.
Source: Kafka auto.leader.rebalance.enable and leader.imbalance.check.interval.seconds; Kafka waits
for a tenth of a broker's partitions, here each partition has a time of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from strandline.model import (
    BrokerId,
    ElectionKind,
    IsrEntry,
    LeaderEpoch,
    PartitionState,
    Recovery,
    StoredPartition,
    covers,
)

from .broker_entry import BrokerEntry, InSession
from .election_input import ElectionDecision, ElectionInput
from .elections import effective_min_isr, may_keep_leader, next_state


class LeaderBalance:
    """Since when the preferred leaders of partitions could lead, in one controller epoch."""

    def __init__(self, *, wait_ms: int) -> None:
        """wait_ms is how long a preferred leader waits, 0 for ever."""
        self._wait_ms = wait_ms
        self._epochs: dict[str, LeaderEpoch] = {}
        """The leader epochs in which preferred leaders wait, or have waited."""
        self._since: dict[str, int] = {}
        """Since when those wait whose time is not over, the first one first."""

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next preferred leader has waited long enough."""
        if not self._wait_ms:
            return None
        first = next(iter(self._since.values()), None)
        return None if first is None else first + self._wait_ms

    def take_due(self, now_ms: int) -> list[str]:
        """Return the partitions whose preferred leader has waited long enough, each once."""
        if not self._wait_ms:
            return []
        due: list[str] = []
        for name, since_ms in self._since.items():
            if since_ms + self._wait_ms > now_ms:
                break
            due.append(name)
        for name in due:
            del self._since[name]
        return due

    def forget(self, name: str) -> None:
        """Forget a partition: its object is gone, or its preferred leader does not wait."""
        self._epochs.pop(name, None)
        self._since.pop(name, None)

    def next_step(
        self, stored: StoredPartition, inputs: ElectionInput, now_ms: int
    ) -> ElectionDecision | None:
        """Return the election of the preferred leader, None while it waits or can not lead."""
        name, state = stored.name, stored.state
        leader = None if state is None else preferred_successor(state, inputs.brokers)
        if state is None or leader is None:
            self.forget(name)
            return None
        if self._epochs.get(name) != state.leader_epoch:
            self.forget(name)
            self._epochs[name], self._since[name] = state.leader_epoch, now_ms
        if stored.elect_preferred_in != state.leader_epoch and name in self._since:
            return None
        return _elect(state, inputs, leader)


def preferred_successor(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]
) -> IsrEntry | None:
    """Return the ISR entry with which the preferred leader would lead; None if it leads or can not.

    While a partition moves, its last write chooses the leader.
    """
    preferred = state.replicas[0]
    entry, broker = state.entry_of(preferred), brokers.get(preferred)
    is_moving = state.adding_replicas or state.removing_replicas
    if entry is None or is_moving or preferred == state.leader:
        return None
    if not isinstance(broker, InSession) or broker.shutting_down or broker.is_full:
        return None
    if not may_keep_leader(state, brokers):
        return None
    clean_since_epoch = broker.registration.clean_since_epoch
    if not covers(entry, clean_since_epoch=clean_since_epoch, broker_epoch=broker.broker_epoch):
        return None
    return IsrEntry(broker_id=preferred, broker_epoch=broker.broker_epoch)


def _elect(state: PartitionState, inputs: ElectionInput, leader: IsrEntry) -> ElectionDecision:
    isr = tuple(leader if each.broker_id == leader.broker_id else each for each in state.isr)
    min_isr = effective_min_isr(state, inputs.topic)
    following = next_state(state, inputs.brokers, inputs.controller_epoch, isr, min_isr)
    elected = replace(
        following,
        leader=leader.broker_id,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        recovery=Recovery.CLEAN,
        reason="",
    )
    return ElectionDecision(state=elected, kind=ElectionKind.PREFERRED)
