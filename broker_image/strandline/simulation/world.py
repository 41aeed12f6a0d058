"""The world of one schedule: machines, faults, and how things find each other.

Everything is made from a plan; `run.py` turns the handle. A machine keeps its disk while its
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

from .api import Api
from .clients import Clients, Consuming, Producing
from .disk import Disk
from .happenings import Happened, Happening
from .link import broker_of
from .network import Network
from .plan import EVERYBODY, Conditions, Fault, FaultKind, Plan
from .process import Process
from .promises import EPOCHS_NEVER_FALL, OFFLINE_NEEDS_LOSS, PromiseBroken, Promises
from .sessions import Session
from .store import Store
from .timeline import Timeline

TRACE_LENGTH = 50


@dataclass(slots=True)
class Machine:
    """One broker's machine: its disk, its boot, and the process that runs on it, if any."""

    broker_id: BrokerId
    disk: Disk
    boots: int = 1
    starts: int = 0
    process: Process | None = None
    is_dark: bool = False
    """Without power: probes meet silence, not refusal."""


class World:
    """Everything of one schedule."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.conditions = plan.conditions
        self.timeline = Timeline()
        self.store = Store(plan)
        self.happened = Happened()
        self.network = Network(
            self.timeline, seed=plan.seed, conditions=plan.conditions, happened=self.happened
        )
        self.api = Api(
            self.timeline,
            seed=plan.seed,
            conditions=plan.conditions,
            timeout_ms=plan.timing.api_timeout_ms,
            happened=self.happened,
        )
        self.machines = {
            broker_id: Machine(broker_id, Disk(log_dir_id=f"dir-{broker_id}-0"))
            for broker_id in self.store.brokers
        }
        disks = {broker_id: machine.disk for broker_id, machine in self.machines.items()}
        self.promises = Promises(self.store, disks)
        self.sessions: dict[int, Session] = {}
        self.trace: deque[tuple[int, object, object]] = deque(maxlen=TRACE_LENGTH)
        self.digest = 0
        self.controllers_elected = 0
        self.deciders: set[BrokerId] = set()
        """The brokers that committed the state of a partition as controller."""
        self.losses = 0
        self.not_back: dict[str, set[BrokerId]] = {name: set() for name in self.store.partitions}
        """By partition, who lost data and has not joined its ISR since."""
        self.not_back_max = 0
        self.clients = Clients(self)
        self._last_session = 0
        self._stopped_for_ms: dict[BrokerId, int] = {}
        for broker_id in self.machines:
            self.start(broker_id)
        for fault in plan.faults:
            self.timeline.at(fault.at_ms, self.inflict, fault)
        self.timeline.at(plan.calm_ms, self.calm)

    def note(self, who: object, what: object) -> None:
        """Remember an event for the trace, and mix its place and kind into the digest."""
        now_ms = self.timeline.now_ms
        self.trace.append((now_ms, who, what))
        line = f"{now_ms} {who} {type(what).__name__}"
        self.digest = zlib.crc32(line.encode(), self.digest)

    def hear(self, process: Process, notice: ControllerEffect) -> None:
        """Take a notice of a controller."""
        if isinstance(notice, ControllerElected):
            self.note(process.incarnation, notice)
            self.controllers_elected += 1

    # --- finding each other ---------------------------------------------------------------

    def serving(self, broker_id: BrokerId) -> Process | None:
        """Return the process that listens on a broker's address."""
        process = self.machines[broker_id].process
        return process if process is not None and process.serving else None

    def open_session(self, client: Process, server_id: BrokerId) -> Session:
        """Return a new stream."""
        self._last_session += 1
        session = Session(self, self._last_session, client, server_id)
        self.sessions[session.number] = session
        return session

    def arrive_fetch(
        self, leader: BrokerId, follower: Process, fetch: FollowerFetchReceived
    ) -> None:
        """Hand a fetch to whoever listens at the leader's address."""
        process = self.serving(leader)
        if process is None:
            dark = self.machines[leader].is_dark or self.network.is_cut(leader, follower.broker_id)
            delay_ms = self.plan.timing.break_detected_ms if dark else 1
            follower.hands.fetch_failed_after(delay_ms, fetch.request_id, leader)
        else:
            process.deliver(process.hands.on_fetch, follower, fetch)

    def arrive_produce(
        self,
        broker_id: BrokerId,
        sender: Producing,
        attempt: int,
        tp: TopicPartition,
        values: tuple[int, ...],
    ) -> None:
        """Hand a batch to a broker; nobody there means an error at once."""
        process = self.serving(broker_id)
        if process is None:
            self.timeline.after(1, sender.on_answer, attempt, ErrorCode.NETWORK_EXCEPTION)
        else:
            process.deliver(process.hands.on_produce, sender, attempt, tp, values)

    def arrive_consume(
        self, broker_id: BrokerId, sender: Consuming, tp: TopicPartition, position: int
    ) -> None:
        """Hand a consumer's fetch to a broker."""
        process = self.serving(broker_id)
        if process is None:
            self.timeline.after(1, sender.on_read, ErrorCode.NETWORK_EXCEPTION, position)
        else:
            process.deliver(process.hands.on_consume, sender, tp, position)

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
            if found is None and not self.machines[target].is_dark:
                verdict = ProbeVerdict.REFUSED
            elif found is not None and not found.paused:
                same = found.incarnation == incarnation
                verdict = ProbeVerdict.ANSWERED if same else ProbeVerdict.OTHER_INCARNATION
            silent = verdict is ProbeVerdict.NO_ANSWER
            after_ms = deadline_ms if silent else 1
            self.timeline.after(after_ms, process.deliver, on_verdict, verdict)

        if delay_ms is None or delay_ms > deadline_ms:
            verdict = ProbeVerdict.NO_ANSWER
            self.timeline.after(deadline_ms, process.deliver, on_verdict, verdict)
        else:
            self.timeline.after(delay_ms, look)

    # --- the store ------------------------------------------------------------------------

    def write_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Apply a write of the Lease and show it."""
        stored = self.store.put_lease(lease)
        if stored is not None:
            self.api.show_lease(stored)
        return stored

    def write_registration(
        self, found: StoredBroker, registration: Registration
    ) -> StoredBroker | None:
        """Apply a registration and show it."""
        stored = self.store.put_registration(found, registration)
        if stored is not None:
            self.api.show(BrokerObserved(broker=stored))
        return stored

    def write_status(self, writer: Process, effect: WritePartitionStatus) -> StoredPartition | None:
        """Apply a status write, judge it, and show it."""
        known = self.store.partitions[effect.name]
        stored = self.store.put_partition_status(effect.name, effect.resource_version, effect.state)
        if stored is None:
            if known.resource_version == effect.resource_version:
                raise PromiseBroken(EPOCHS_NEVER_FALL, old=known.state, new=effect.state)
            return None
        self.deciders.add(writer.broker_id)
        self.not_back[effect.name] -= {
            entry.broker_id
            for entry in effect.state.isr
            if entry.broker_epoch > self.machines[entry.broker_id].disk.void_epoch
        }
        self.note(effect.name, effect.state)
        self.promises.on_committed_state(known.tp, known.state, effect.state)
        self.api.show(PartitionObserved(partition=stored))
        return stored

    # --- machines -------------------------------------------------------------------------

    def start(self, broker_id: BrokerId) -> None:
        """Start a process unless one runs."""
        machine = self.machines[broker_id]
        if machine.process is not None:
            return
        machine.is_dark = False
        machine.starts += 1
        machine.process = Process(
            self,
            broker_id=broker_id,
            disk=machine.disk,
            incarnation=f"pod-{broker_id}.{machine.starts}",
            boot_id=f"boot-{broker_id}.{machine.boots}",
        )

    def _end(self, machine: Machine, *, dark: bool) -> None:
        process = machine.process
        if process is None:
            return
        process.die()
        machine.process = None
        machine.is_dark = dark
        for session in list(self.sessions.values()):
            if session.client is process or session.server is process:
                other = session.server_id if session.client is process else session.client.broker_id
                hidden = dark or self.network.is_cut(process.broker_id, other)
                session.break_after(self.plan.timing.session_timeout_ms if hidden else 2)

    def on_exit(self, process: Process) -> None:
        """Take note that an orderly stop is done; the machine boots before the broker starts."""
        machine = self.machines[process.broker_id]
        self._end(machine, dark=False)
        machine.boots += 1
        for_ms = self._stopped_for_ms.pop(process.broker_id, 0)
        self.timeline.after(for_ms, self.start, process.broker_id)

    # --- faults ---------------------------------------------------------------------------

    def inflict(self, fault: Fault) -> None:
        """Let a fault happen to whoever it means now."""
        until_ms = self.timeline.now_ms + fault.for_ms
        self.note(fault.target, fault)
        if fault.kind is FaultKind.API_OUTAGE:
            self.happened[fault.kind] += 1
            self.api.outage(until_ms)
            return
        target = self._resolve(fault.target)
        if target is None:
            return
        machine = self.machines[target]
        match fault.kind:
            case FaultKind.CUT:
                self.happened[fault.kind] += 1
                self.network.cut(target, fault.peer, until_ms)
            case FaultKind.ISOLATE:
                self.happened[fault.kind] += 1
                self.network.cut(target, EVERYBODY, until_ms)
                self.network.cut(EVERYBODY, target, until_ms)
            case FaultKind.API_CUT:
                self.happened[fault.kind] += 1
                self.api.cut(target, until_ms)
            case _ if machine.process is not None:
                self._inflict_on(machine, machine.process, fault)
            case _:
                pass

    def _inflict_on(self, machine: Machine, process: Process, fault: Fault) -> None:
        broker_id = machine.broker_id
        loses = fault.kind in (FaultKind.POWER_LOSS, FaultKind.WIPE)
        spared = loses and not self._may_lose(broker_id)
        self.happened[FaultKind.CRASH if spared else fault.kind] += 1
        match fault.kind:
            case FaultKind.PAUSE:
                process.pause()
                self.timeline.after(fault.for_ms, process.resume)
            case FaultKind.STOP:
                self._stopped_for_ms[broker_id] = fault.for_ms
                process.stop()
            case FaultKind.WATCH_LOST:
                self.api.lose_watches(process)
            case FaultKind.POWER_LOSS | FaultKind.WIPE if not spared:
                self._lose(machine, fault)
            case _:
                self._end(machine, dark=False)
                self.timeline.after(fault.for_ms, self.start, broker_id)

    def _lose(self, machine: Machine, fault: Fault) -> None:
        self._end(machine, dark=True)
        self.losses += 1
        machine.boots += 1
        wiped = fault.kind is FaultKind.WIPE
        if wiped:
            machine.disk.wipe(f"dir-{machine.broker_id}-{machine.boots}")
        elif machine.disk.lose_power(fault.keep_per_mille) > 0:
            self.happened[Happening.TAIL_LOST] += 1
        for name, found in self.store.partitions.items():
            if machine.broker_id in found.assigned:
                self.not_back[name].add(machine.broker_id)
                self.not_back_max = max(self.not_back_max, len(self.not_back[name]))
        self.promises.on_lost(machine.broker_id, wiped=wiped)
        self.timeline.after(fault.for_ms, self.start, machine.broker_id)

    def _may_lose(self, broker_id: BrokerId) -> bool:
        """Tell whether the guarantee covers that this broker loses data now, too."""
        for found in self.store.partitions.values():
            if broker_id not in found.assigned:
                continue
            lossy = [b for b in found.assigned if b != broker_id and self._is_void(b, found.state)]
            if len(lossy) + 1 >= self.plan.min_insync_replicas:
                return False
        return True

    def _is_void(self, broker_id: BrokerId, state: PartitionState | None) -> bool:
        """Tell whether a broker lost data and is not back in the ISR since."""
        void_epoch = self.machines[broker_id].disk.void_epoch
        entry = None if state is None else state.entry_of(broker_id)
        return void_epoch >= 0 and (entry is None or entry.broker_epoch <= void_epoch)

    def _resolve(self, target: str) -> BrokerId | None:
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

    def calm(self) -> None:
        """End all faults; from now on everything must heal."""
        self.note("all", "calm")
        self.conditions = Conditions()
        self.network.calm()
        self.api.calm()
        for broker_id, machine in self.machines.items():
            if machine.process is not None:
                machine.process.resume()
            self.start(broker_id)

    # --- the end --------------------------------------------------------------------------

    def unsettled(self) -> str:
        """Return what is not healed yet, "" when everything is."""
        if self.clients.unfinished:
            return f"{self.clients.unfinished} requests of clients"
        processes = [self.serving(broker_id) for broker_id in self.machines]
        serving = [process for process in processes if process is not None]
        if len(serving) < len(self.machines):
            return "not every broker serves"
        epochs = [p.office.controller.epoch for p in serving]
        if [epoch for epoch in epochs if epoch is not None] != [self.store.record.controller_epoch]:
            return f"controllers {epochs}"
        if any(
            process.hands.waits or process.replicas.purgatory_sizes()["produce"]
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
        logs = [self.machines[b].disk.logs.get(found.tp) for b in state.replicas]
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
        """Return why a partition may not stay offline: somebody of its last ISR has everything."""
        if state.reason != UNCLEAN_LAST_REPLICA:
            return f"offline: {state.reason}"
        for entry in state.isr:
            if entry.broker_epoch > self.machines[entry.broker_id].disk.void_epoch:
                raise PromiseBroken(OFFLINE_NEEDS_LOSS, tp=tp, entry=entry)
        return ""
