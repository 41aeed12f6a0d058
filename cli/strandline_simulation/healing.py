"""The end of all faults, and what must then hold: the cluster heals, every request is answered."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.core.views import RoleName
from strandline.model import (
    NO_EPOCH,
    NO_LEADER,
    NO_TERM,
    STATE_LOST,
    UNCLEAN_LAST_REPLICA,
    BrokerId,
    IsrEntry,
    PartitionState,
    StoredPartition,
    TopicPartition,
)

from .clients import SimulatedClients
from .environment import SimulatedEnvironment
from .hosts import Hosts
from .invariants import Invariant, InvariantBroken
from .serving_broker import ServingBroker


class Healing:
    """Ends the faults of one schedule, and says what is not healed yet."""

    def __init__(
        self, environment: SimulatedEnvironment, hosts: Hosts, clients: SimulatedClients
    ) -> None:
        self._environment = environment
        self._hosts = hosts
        self._disks = environment.disks
        self._clients = clients
        environment.virtual_time.at(environment.plan.heal_at_ms, self.heal)

    def heal(self) -> None:
        """End all faults; from now on everything must heal."""
        environment = self._environment
        environment.trace.record("all", "heal")
        environment.conditions.end_faults()
        environment.network.heal()
        environment.api.heal()
        self._hosts.wake_all()

    def unsettled(self) -> str:
        """Return what is not healed yet, "" when everything is."""
        if self._clients.unfinished:
            return f"{self._clients.unfinished} requests of clients"
        brokers, store = self._hosts.listening(), self._environment.api.store
        if len(brokers) < len(self._disks):
            return "not every broker serves"
        epochs = [broker.active_epoch for broker in brokers.values()]
        if [epoch for epoch in epochs if epoch is not None] != [store.record.controller_epoch]:
            return f"controllers {epochs}"
        if any(broker.has_waiting_requests for broker in brokers.values()):
            return "requests wait in a purgatory"
        for found in store.partitions.values():
            missing = self._unsettled_partition(found, brokers)
            if missing:
                return f"{found.name}: {missing}"
        return ""

    def _unsettled_partition(
        self, found: StoredPartition, brokers: Mapping[BrokerId, ServingBroker]
    ) -> str:
        state = found.state
        if state is None:
            return "no state"
        if state.leader == NO_LEADER:
            return self._unsettled_offline(found.tp, state)
        if state.replicas != found.assigned or state.adding_replicas or state.removing_replicas:
            return f"moves from {state.replicas} to {found.assigned}"
        if set(state.isr_ids) != set(state.replicas):
            return f"isr {state.isr}"
        left = [each for each, disk in self._disks.items() if found.tp in disk.logs]
        if set(left) != set(state.replicas):
            return f"logs on {left}, replicas {state.replicas}"
        logs = [self._disks[broker_id].logs.get(found.tp) for broker_id in state.replicas]
        kept = [log for log in logs if log is not None]
        start = max((log.log_start_offset for log in kept), default=0)
        tails = [(log.end, log.values[start - log.start :]) for log in kept]
        if len(kept) < len(logs) or any(tail != tails[0] for tail in tails):
            return "logs differ"
        for broker_id in state.replicas:
            view = brokers[broker_id].view(found.tp)
            role = RoleName.LEADER if broker_id == state.leader else RoleName.FOLLOWER
            if view is None or view.role is not role or view.leader_epoch != state.leader_epoch:
                return f"broker {broker_id} is not {role.value}"
            if view.high_watermark != view.log_end_offset:
                return f"broker {broker_id} has not committed everything"
        return ""

    def _unsettled_offline(self, tp: TopicPartition, state: PartitionState) -> str:
        """Return why a partition may not stay offline: a replica lost nothing that could lead."""
        if state.reason == STATE_LOST and self._is_for_a_person(tp, state):
            return ""
        if state.reason != UNCLEAN_LAST_REPLICA:
            return f"offline: {state.reason}"
        for entry in state.candidates:
            if self._disks[entry.broker_id].covers(entry):
                raise InvariantBroken(Invariant.OFFLINE_NEEDS_LOSS, tp=tp, entry=entry)
        return ""

    def _is_for_a_person(self, tp: TopicPartition, state: PartitionState) -> bool:
        """Tell whether the last leader lost data or its log, and logs end in different epochs.

        A log that was removed, and made again behind the fence, knows no leadership (ADR 0057).
        """
        disks = [self._disks[broker_id] for broker_id in state.replicas]
        if not any(disk.logs[tp].end for disk in disks if tp in disk.logs):
            # Nothing tells that a log in a trash is as empty (ADR 0037).
            return any(disk.has_trash_of_use(tp) for disk in self._disks.values())
        terms = [disk.persisted[tp].term for disk in disks if tp in disk.persisted]
        last = max(terms, key=lambda term: term.leader_epoch, default=NO_TERM)
        leader = IsrEntry(broker_id=last.led_by, broker_epoch=last.led_as)
        unknown = any(
            disk.logs[tp].end and (tp not in disk.persisted or disk.persisted[tp].term == NO_TERM)
            for disk in disks
            if tp in disk.logs
        )
        if (
            not unknown
            and last.led_by in state.replicas
            and self._disks[last.led_by].covers(leader)
        ):
            own = self._disks[last.led_by].persisted.get(tp)
            if own is not None and own.term != NO_TERM:
                return False
        logs = [disk.logs[tp] for disk in disks if tp in disk.logs]
        # Of a log whose records are all deleted the epoch may be unknown: it counts as another one.
        ends = {log.epochs[-1].leader_epoch if log.epochs else NO_EPOCH for log in logs if log.end}
        return len(ends) > 1
