"""The world of one schedule: hosts, faults, and how things find each other.

Everything is made from a plan; `run.py` runs it. A host keeps its disk while its
processes come and go; power loss and wiping are allowed only as far as the guarantee goes:
fewer than min ISR replicas of a partition may have lost data and not be back in its ISR.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from strandline.controller.effects import ControllerEffect, WritePartitionStatus
from strandline.controller.elections import UNCLEAN_LAST_REPLICA
from strandline.controller.events import ProbeVerdict
from strandline.controller.notices import ControllerElected
from strandline.controller.store_events import BrokerObserved, PartitionObserved
from strandline.core.events import FollowerFetchReceived
from strandline.core.views import RoleName
from strandline.errors import ErrorCode
from strandline.model import (
    NO_LEADER,
    BrokerId,
    LeaseRecord,
    PartitionState,
    Registration,
    StoredBroker,
    StoredPartition,
    TopicPartition,
)

from .api_server import ApiServer
from .clients import ConsumerRequest, ProducerRequest, SimulatedClients
from .controller_session import broker_of
from .disk import SimulatedDisk
from .fault_counts import Anomaly, FaultCounts
from .invariants import EPOCHS_NEVER_FALL, OFFLINE_NEEDS_LOSS, InvariantBroken, Invariants
from .network import Network
from .plan import ANY_PEER, Conditions, Fault, FaultKind, Plan
from .process import Process
from .session_stream import SessionStream
from .store import SimulatedStore
from .virtual_time import VirtualTime

TRACE_LENGTH = 50


@dataclass(slots=True)
class Host:
    """The host of one broker: its disk, its boot, and the process that runs on it, if any."""

    broker_id: BrokerId
    disk: SimulatedDisk
    boots: int = 1
    starts: int = 0
    process: Process | None = None
    is_powered_off: bool = False
    """Without power: probes meet silence, not refusal."""


class World:
    """Everything of one schedule."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.conditions = plan.conditions
        self.virtual_time = VirtualTime()
        self.store = SimulatedStore(plan)
        self.fault_counts = FaultCounts()
        self.network = Network(
            self.virtual_time,
            seed=plan.seed,
            conditions=plan.conditions,
            fault_counts=self.fault_counts,
        )
        self.api = ApiServer(
            self.virtual_time,
            seed=plan.seed,
            conditions=plan.conditions,
            timeout_ms=plan.timing.api_timeout_ms,
            fault_counts=self.fault_counts,
        )
        self.hosts = {
            broker_id: Host(broker_id, SimulatedDisk(log_dir_id=f"dir-{broker_id}-0"))
            for broker_id in self.store.brokers
        }
        disks = {broker_id: host.disk for broker_id, host in self.hosts.items()}
        self.invariants = Invariants(self.store, disks)
        self.sessions: dict[int, SessionStream] = {}
        self.trace: deque[tuple[int, object, object]] = deque(maxlen=TRACE_LENGTH)
        self.digest = 0
        self.controllers_elected = 0
        self.deciding_brokers: set[BrokerId] = set()
        """The brokers that committed the state of a partition as controller."""
        self.data_losses = 0
        self.awaiting_rejoin: dict[str, set[BrokerId]] = {
            name: set() for name in self.store.partitions
        }
        """By partition, who lost data and has not joined its ISR since."""
        self.awaiting_rejoin_max = 0
        self.clients = SimulatedClients(self)
        self._last_session = 0
        self._stopped_for_ms: dict[BrokerId, int] = {}
        for broker_id in self.hosts:
            self.start(broker_id)
        for fault in plan.faults:
            self.virtual_time.at(fault.at_ms, self.inject, fault)
        self.virtual_time.at(plan.heal_at_ms, self.heal)

    def trace_event(self, who: object, what: object) -> None:
        """Remember an event for the trace, and mix its place and kind into the digest."""
        now_ms = self.virtual_time.now_ms
        self.trace.append((now_ms, who, what))
        line = f"{now_ms} {who} {type(what).__name__}"
        self.digest = zlib.crc32(line.encode(), self.digest)

    def on_controller_notice(self, process: Process, notice: ControllerEffect) -> None:
        """Take a notice of a controller."""
        if isinstance(notice, ControllerElected):
            self.trace_event(process.incarnation, notice)
            self.controllers_elected += 1

    # --- finding each other ---------------------------------------------------------------

    def serving(self, broker_id: BrokerId) -> Process | None:
        """Return the process that listens on a broker's address."""
        process = self.hosts[broker_id].process
        return process if process is not None and process.serving else None

    def open_session(self, client: Process, server_id: BrokerId) -> SessionStream:
        """Return a new stream."""
        self._last_session += 1
        session = SessionStream(self, self._last_session, client, server_id)
        self.sessions[session.number] = session
        return session

    def deliver_fetch(
        self, leader: BrokerId, follower: Process, fetch: FollowerFetchReceived
    ) -> None:
        """Hand a fetch to the process that listens at the leader's address."""
        process = self.serving(leader)
        if process is None:
            silent = self.hosts[leader].is_powered_off or self.network.is_cut(
                leader, follower.broker_id
            )
            delay_ms = self.plan.timing.break_detected_ms if silent else 1
            follower.core_shell.fetch_failed_after(delay_ms, fetch.request_id, leader)
        else:
            process.deliver(process.core_shell.on_fetch, follower, fetch)

    def deliver_produce(
        self,
        broker_id: BrokerId,
        sender: ProducerRequest,
        attempt: int,
        tp: TopicPartition,
        values: tuple[int, ...],
    ) -> None:
        """Hand a batch to a broker; without a process there it fails at once."""
        process = self.serving(broker_id)
        if process is None:
            self.virtual_time.after(1, sender.on_response, attempt, ErrorCode.NETWORK_EXCEPTION)
        else:
            process.deliver(process.core_shell.on_produce, sender, attempt, tp, values)

    def deliver_consume(
        self, broker_id: BrokerId, sender: ConsumerRequest, tp: TopicPartition, position: int
    ) -> None:
        """Hand a consumer's fetch to a broker."""
        process = self.serving(broker_id)
        if process is None:
            self.virtual_time.after(1, sender.on_read, ErrorCode.NETWORK_EXCEPTION, position)
        else:
            process.deliver(process.core_shell.on_consume, sender, tp, position)

    def probe(
        self,
        process: Process,
        target: BrokerId,
        incarnation: str,
        deadline_ms: int,
        on_verdict: Callable[[ProbeVerdict], None],
    ) -> None:
        """Ask who listens at a broker's address, within a deadline."""
        delay_ms = self.network.round_trip_ms(process.broker_id, target)

        def look() -> None:
            verdict, found = ProbeVerdict.NO_ANSWER, self.serving(target)
            if found is None and not self.hosts[target].is_powered_off:
                verdict = ProbeVerdict.REFUSED
            elif found is not None and not found.paused:
                same = found.incarnation == incarnation
                verdict = ProbeVerdict.ANSWERED if same else ProbeVerdict.OTHER_INCARNATION
            silent = verdict is ProbeVerdict.NO_ANSWER
            after_ms = deadline_ms if silent else 1
            self.virtual_time.after(after_ms, process.deliver, on_verdict, verdict)

        if delay_ms is None or delay_ms > deadline_ms:
            verdict = ProbeVerdict.NO_ANSWER
            self.virtual_time.after(deadline_ms, process.deliver, on_verdict, verdict)
        else:
            self.virtual_time.after(delay_ms, look)

    # --- the store ------------------------------------------------------------------------

    def write_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Apply a write of the Lease and show it."""
        stored = self.store.put_lease(lease)
        if stored is not None:
            self.api.notify_lease_watches(stored)
        return stored

    def write_registration(
        self, found: StoredBroker, registration: Registration
    ) -> StoredBroker | None:
        """Apply a registration and show it."""
        stored = self.store.put_registration(found, registration)
        if stored is not None:
            self.api.notify_watches(BrokerObserved(broker=stored))
        return stored

    def write_status(self, writer: Process, effect: WritePartitionStatus) -> StoredPartition | None:
        """Apply a status write, judge it, and show it."""
        known = self.store.partitions[effect.name]
        stored = self.store.put_partition_status(effect.name, effect.resource_version, effect.state)
        if stored is None:
            if known.resource_version == effect.resource_version:
                raise InvariantBroken(EPOCHS_NEVER_FALL, old=known.state, new=effect.state)
            return None
        self.deciding_brokers.add(writer.broker_id)
        self.awaiting_rejoin[effect.name] -= {
            entry.broker_id
            for entry in effect.state.isr
            if entry.broker_epoch > self.hosts[entry.broker_id].disk.unclean_up_to_epoch
        }
        self.trace_event(effect.name, effect.state)
        self.invariants.on_committed_state(known.tp, known.state, effect.state)
        self.api.notify_watches(PartitionObserved(partition=stored))
        return stored

    # --- hosts ----------------------------------------------------------------------------

    def start(self, broker_id: BrokerId) -> None:
        """Start a process unless one runs."""
        host = self.hosts[broker_id]
        if host.process is not None:
            return
        host.is_powered_off = False
        host.starts += 1
        host.process = Process(
            self,
            broker_id=broker_id,
            disk=host.disk,
            incarnation=f"pod-{broker_id}.{host.starts}",
            boot_id=f"boot-{broker_id}.{host.boots}",
        )

    def _end_process(self, host: Host, *, powered_off: bool) -> None:
        process = host.process
        if process is None:
            return
        process.die()
        host.process = None
        host.is_powered_off = powered_off
        for session in list(self.sessions.values()):
            if session.client is process or session.server is process:
                other = session.server_id if session.client is process else session.client.broker_id
                hidden = powered_off or self.network.is_cut(process.broker_id, other)
                session.break_after(self.plan.timing.session_timeout_ms if hidden else 2)

    def on_exit(self, process: Process) -> None:
        """Take note that an orderly stop is done; the host boots before the broker starts."""
        host = self.hosts[process.broker_id]
        self._end_process(host, powered_off=False)
        host.boots += 1
        for_ms = self._stopped_for_ms.pop(process.broker_id, 0)
        self.virtual_time.after(for_ms, self.start, process.broker_id)

    # --- faults ---------------------------------------------------------------------------

    def inject(self, fault: Fault) -> None:
        """Inject a fault; its target is the broker that has the role now."""
        until_ms = self.virtual_time.now_ms + fault.for_ms
        self.trace_event(fault.target, fault)
        if fault.kind is FaultKind.API_OUTAGE:
            self.fault_counts[fault.kind] += 1
            self.api.outage(until_ms)
            return
        target = self._resolve_target(fault.target)
        if target is None:
            return
        host = self.hosts[target]
        match fault.kind:
            case FaultKind.CUT:
                self.fault_counts[fault.kind] += 1
                self.network.cut(target, fault.peer, until_ms)
            case FaultKind.ISOLATE:
                self.fault_counts[fault.kind] += 1
                self.network.cut(target, ANY_PEER, until_ms)
                self.network.cut(ANY_PEER, target, until_ms)
            case FaultKind.API_CUT:
                self.fault_counts[fault.kind] += 1
                self.api.cut(target, until_ms)
            case _ if host.process is not None:
                self._inject_into(host, host.process, fault)
            case _:
                pass

    def _inject_into(self, host: Host, process: Process, fault: Fault) -> None:
        broker_id = host.broker_id
        loses = fault.kind in (FaultKind.POWER_LOSS, FaultKind.WIPE)
        spared = loses and not self._may_lose_data(broker_id)
        self.fault_counts[FaultKind.CRASH if spared else fault.kind] += 1
        match fault.kind:
            case FaultKind.PAUSE:
                process.pause()
                self.virtual_time.after(fault.for_ms, process.resume)
            case FaultKind.STOP:
                self._stopped_for_ms[broker_id] = fault.for_ms
                process.stop()
            case FaultKind.WATCH_LOST:
                self.api.expire_watches(process)
            case FaultKind.POWER_LOSS | FaultKind.WIPE if not spared:
                self._lose_data(host, fault)
            case _:
                self._end_process(host, powered_off=False)
                self.virtual_time.after(fault.for_ms, self.start, broker_id)

    def _lose_data(self, host: Host, fault: Fault) -> None:
        self._end_process(host, powered_off=True)
        self.data_losses += 1
        host.boots += 1
        wiped = fault.kind is FaultKind.WIPE
        if wiped:
            host.disk.wipe(f"dir-{host.broker_id}-{host.boots}")
        elif host.disk.lose_power(fault.keep_per_mille) > 0:
            self.fault_counts[Anomaly.TAIL_LOST] += 1
        for name, found in self.store.partitions.items():
            if host.broker_id in found.assigned:
                self.awaiting_rejoin[name].add(host.broker_id)
                self.awaiting_rejoin_max = max(
                    self.awaiting_rejoin_max, len(self.awaiting_rejoin[name])
                )
        self.invariants.on_data_lost(host.broker_id, wiped=wiped)
        self.virtual_time.after(fault.for_ms, self.start, host.broker_id)

    def _may_lose_data(self, broker_id: BrokerId) -> bool:
        """Tell whether the guarantee covers that this broker loses data now, too."""
        for found in self.store.partitions.values():
            if broker_id not in found.assigned:
                continue
            lossy = [
                b for b in found.assigned if b != broker_id and self._awaits_rejoin(b, found.state)
            ]
            if len(lossy) + 1 >= self.plan.min_insync_replicas:
                return False
        return True

    def _awaits_rejoin(self, broker_id: BrokerId, state: PartitionState | None) -> bool:
        """Tell whether a broker lost data and is not back in the ISR since."""
        unclean_up_to_epoch = self.hosts[broker_id].disk.unclean_up_to_epoch
        entry = None if state is None else state.entry_of(broker_id)
        return unclean_up_to_epoch >= 0 and (
            entry is None or entry.broker_epoch <= unclean_up_to_epoch
        )

    def _resolve_target(self, target: str) -> BrokerId | None:
        role, _, number = target.partition(":")
        if role == "controller":
            return broker_of(self.store.lease.holder_identity)
        if not number:
            return BrokerId(int(target))
        state = self.store.partitions[f"topic-{number}"].state
        if state is None:
            return None
        if role == "leader":
            return None if state.leader == NO_LEADER else state.leader
        return next((b for b in state.isr_ids if b != state.leader), None)

    def heal(self) -> None:
        """End all faults; from now on everything must heal."""
        self.trace_event("all", "heal")
        self.conditions = Conditions()
        self.network.heal()
        self.api.heal()
        for broker_id, host in self.hosts.items():
            if host.process is not None:
                host.process.resume()
            self.start(broker_id)

    # --- the end --------------------------------------------------------------------------

    def unsettled(self) -> str:
        """Return what is not healed yet, "" when everything is."""
        if self.clients.unfinished:
            return f"{self.clients.unfinished} requests of clients"
        processes = [self.serving(broker_id) for broker_id in self.hosts]
        serving = [process for process in processes if process is not None]
        if len(serving) < len(self.hosts):
            return "not every broker serves"
        epochs = [p.controller_shell.controller.epoch for p in serving]
        if [epoch for epoch in epochs if epoch is not None] != [self.store.record.controller_epoch]:
            return f"controllers {epochs}"
        if any(
            process.core_shell.waiting_consumers or process.replicas.purgatory_sizes()["produce"]
            for process in serving
        ):
            return "requests wait in a purgatory"
        for found in self.store.partitions.values():
            missing = self._unsettled_partition(found)
            if missing:
                return f"{found.name}: {missing}"
        return ""

    def _unsettled_partition(self, found: StoredPartition) -> str:
        state = found.state
        if state is None:
            return "no state"
        if state.leader == NO_LEADER:
            return self._unsettled_offline(found.tp, state)
        if set(state.isr_ids) != set(state.replicas):
            return f"isr {state.isr}"
        logs = [self.hosts[b].disk.logs.get(found.tp) for b in state.replicas]
        if any(log is None or log.values != logs[0].values for log in logs if logs[0]):
            return "logs differ"
        for broker_id in state.replicas:
            process = self.serving(broker_id)
            view = None if process is None else process.replicas.view(found.tp)
            leads = broker_id == state.leader
            role = RoleName.LEADER if leads else RoleName.FOLLOWER
            if view is None or view.role is not role or view.leader_epoch != state.leader_epoch:
                return f"broker {broker_id} is not {role.value}"
            if view.high_watermark != view.log_end_offset:
                return f"broker {broker_id} has not committed everything"
        return ""

    def _unsettled_offline(self, tp: TopicPartition, state: PartitionState) -> str:
        """Return why a partition may not stay offline: a member of its last ISR lost nothing."""
        if state.reason != UNCLEAN_LAST_REPLICA:
            return f"offline: {state.reason}"
        for entry in state.isr:
            if entry.broker_epoch > self.hosts[entry.broker_id].disk.unclean_up_to_epoch:
                raise InvariantBroken(OFFLINE_NEEDS_LOSS, tp=tp, entry=entry)
        return ""
