"""Injects faults. To add one, write a function here and give it a word: nothing else changes.

Plans name a fault by its word; the generator draws from `KINDS`; the summary counts them. A
function does its harm, or raises `NoTarget`: a planned fault that had no effect proves nothing,
so it is not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.controller_session.events import TrashChanged
from strandline.model import NO_LEADER, BrokerId, HolderIdentity

from .environment import SimulatedEnvironment
from .fault_counts import Anomaly
from .hosts import Hosts
from .plan import ANY_PEER, Fault
from .process import Process

Inject = Callable[["Nemesis", Fault], None]


class NoTarget(Exception):
    """No broker has the role that a fault names, or no process of that broker runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind of fault; the generator draws it `weight` times as often as one of weight 1.

    One of weight 0 is for directed plans, or drawn apart: drawing it among the others would change
    the plan of every seed.
    One that loses data becomes a crash where the guarantee does not cover another loss.
    """

    word: str
    weight: int
    loses_data: bool
    inject: Inject
    flushed_survives: bool = True
    """Whether a disk that flushes each append loses nothing."""


KINDS: dict[str, FaultKind] = {}
"""By word, in the order in which the generator draws."""


def _kind(
    word: str, *, weight: int = 1, loses_data: bool = False, flushed_survives: bool = True
) -> Callable[[Inject], Inject]:
    def register(inject: Inject) -> Inject:
        KINDS[word] = FaultKind(
            word=word,
            weight=weight,
            loses_data=loses_data,
            flushed_survives=flushed_survives,
            inject=inject,
        )
        return inject

    return register


class Nemesis:
    """The faults of one schedule; each happens at its time, to the broker of that role then."""

    def __init__(self, environment: SimulatedEnvironment, hosts: Hosts) -> None:
        """Schedule the faults of the plan.

        Raises:  ValueError for a word that names no kind of fault
        """
        self.environment = environment
        self.hosts = hosts
        self._flushes = environment.plan.flushes
        faults = environment.plan.faults
        unknown = sorted({fault.kind for fault in faults} - KINDS.keys())
        if unknown:
            raise ValueError(f"unknown kinds of faults: {unknown}")
        for fault in faults:
            environment.virtual_time.at(fault.at_ms, self._inject, fault)

    def _inject(self, fault: Fault) -> None:
        """Inject a fault now, and count what took effect."""
        self.environment.trace.record(fault.target, fault)
        kind, loss_budget = KINDS[fault.kind], self.environment.loss_budget
        try:
            loses_data = kind.loses_data and not (kind.flushed_survives and self._flushes)
            if loses_data and not loss_budget.may_lose(self.process(fault).life.broker_id):
                kind = KINDS["crash"]
            kind.inject(self, fault)
        except NoTarget:
            return
        self.environment.fault_counts[kind.word] += 1

    def until_ms(self, fault: Fault) -> int:
        """Return when a fault that begins now ends."""
        return self.environment.virtual_time.now_ms + fault.for_ms

    def target(self, fault: Fault) -> BrokerId:
        """Return the broker that a fault means now.

        Raises:  NoTarget
        """
        store = self.environment.api.store
        role, _, number = fault.target.partition(":")
        if role == "controller":
            holder = HolderIdentity.parse(store.lease.holder_identity)
            found = None if holder is None else holder.broker_id
        elif not number:
            found = BrokerId(int(fault.target))
        else:
            state = store.partitions[f"topic-{number}"].state
            if state is None:
                raise NoTarget
            followers = (member for member in state.isr_ids if member != state.leader)
            found = state.leader if role == "leader" else next(followers, None)
        if found is None or found == NO_LEADER:
            raise NoTarget
        return found

    def process(self, fault: Fault) -> Process:
        """Return the running process of the broker that a fault means now.

        Raises:  NoTarget
        """
        process = self.hosts.process(self.target(fault))
        if process is None:
            raise NoTarget
        return process


@_kind("crash", weight=4)
def crash(nemesis: Nemesis, fault: Fault) -> None:
    """Kill the process; the page cache, and with it the log, survives."""
    nemesis.hosts.crash(nemesis.process(fault).life.broker_id, fault.for_ms)


@_kind("power_loss", weight=3, loses_data=True)
def power_loss(nemesis: Nemesis, fault: Fault) -> None:
    """Cut the power of a host: unflushed records are lost, the boot id changes."""
    target = nemesis.process(fault).life.broker_id
    lost = nemesis.hosts.lose_power(target, fault.for_ms, fault.keep_per_mille)
    if lost > 0:
        nemesis.environment.fault_counts[Anomaly.TAIL_LOST] += 1
    if not nemesis.environment.plan.flushes:
        nemesis.environment.loss_budget.on_lost(target)
    nemesis.environment.invariants.on_data_lost(target, wiped=False)


@_kind("wipe", loses_data=True, flushed_survives=False)
def wipe(nemesis: Nemesis, fault: Fault) -> None:
    """Let the broker come back with an empty disk."""
    target = nemesis.process(fault).life.broker_id
    nemesis.hosts.wipe(target, fault.for_ms)
    nemesis.environment.loss_budget.on_lost(target)
    nemesis.environment.invariants.on_data_lost(target, wiped=True)


@_kind("pause", weight=2)
def pause(nemesis: Nemesis, fault: Fault) -> None:
    """Freeze the process; what arrives waits."""
    life = nemesis.process(fault).life
    life.pause()
    nemesis.environment.virtual_time.after(fault.for_ms, life.resume)


@_kind("stop")
def stop(nemesis: Nemesis, fault: Fault) -> None:
    """Stop the process in order: leaders are moved, all is flushed, the marker is written."""
    nemesis.hosts.stop(nemesis.process(fault).life.broker_id, fault.for_ms)


@_kind("cut", weight=3)
def cut(nemesis: Nemesis, fault: Fault) -> None:
    """Lose what the target sends to the peer, in this direction only."""
    network, target = nemesis.environment.network, nemesis.target(fault)
    network.cut(target, fault.peer, nemesis.until_ms(fault))


@_kind("isolate")
def isolate(nemesis: Nemesis, fault: Fault) -> None:
    """Lose everything to and from the target; the API server answers it."""
    network, target = nemesis.environment.network, nemesis.target(fault)
    network.cut(target, ANY_PEER, nemesis.until_ms(fault))
    network.cut(ANY_PEER, target, nemesis.until_ms(fault))


@_kind("api_outage")
def api_outage(nemesis: Nemesis, fault: Fault) -> None:
    """Let the API server answer no caller."""
    nemesis.environment.api.outage(nemesis.until_ms(fault))


@_kind("api_cut")
def api_cut(nemesis: Nemesis, fault: Fault) -> None:
    """Let the API server not answer the target."""
    nemesis.environment.api.cut(nemesis.target(fault), nemesis.until_ms(fault))


@_kind("api_slow", weight=0)
def api_slow(nemesis: Nemesis, fault: Fault) -> None:
    """Apply what the target asks for at the end of the fault only, long after it gave up."""
    nemesis.environment.api.hold_back(nemesis.target(fault), nemesis.until_ms(fault))


@_kind("volume_full", weight=0)
def volume_full(nemesis: Nemesis, fault: Fault) -> None:
    """Leave no room for records on the volume of the target; then let it grow."""
    target = nemesis.target(fault)
    nemesis.hosts.fill_volume(target, fault.for_ms)


@_kind("watch_lost")
def watch_lost(nemesis: Nemesis, fault: Fault) -> None:
    """End the target's watches with 410 Gone."""
    nemesis.environment.api.expire_watches(nemesis.process(fault).life.broker_id)


@_kind("lose_partition")
def lose_partition(nemesis: Nemesis, fault: Fault) -> None:
    """Delete a Partition object; the operator makes it anew, to be recovered."""
    _, _, number = fault.target.partition(":")
    name = f"topic-{number or 0}"
    if nemesis.environment.api.store.partitions[name].state is None:
        raise NoTarget
    nemesis.environment.api.lose_partition(name)


@_kind("lose_topic", weight=0)
def lose_topic(nemesis: Nemesis, fault: Fault) -> None:
    """Delete the topic, and bring it back with its id: its logs are on disk, or in the trash.

    The garbage collector has its Partitions for keep_per_mille ms more; then they are made anew.
    """
    environment = nemesis.environment
    api, invariants = environment.api, environment.invariants
    if not api.store.topics or environment.plan.flushes:
        # A partition whose topic is not known has the default settings.
        raise NoTarget

    def come_back() -> None:
        api.return_topic()
        environment.virtual_time.after(fault.keep_per_mille, make_anew)

    def make_anew() -> None:
        for name in sorted(api.store.partitions):
            api.lose_partition(name)

    api.delete_topic()
    invariants.on_topic_deleted()
    environment.virtual_time.after(fault.for_ms, come_back)


@_kind("empty_trash", weight=0)
def empty_trash(nemesis: Nemesis, fault: Fault) -> None:
    """Remove the deleted logs of a broker, which lay there for long enough."""
    broker_id = nemesis.target(fault)
    nemesis.environment.disks[broker_id].empty_trash()
    process = nemesis.hosts.process(broker_id)
    if process is not None and process.broker is not None:
        process.broker.step_session(TrashChanged(trashed=()))


def drawn_kinds() -> list[str]:
    """Return the words of the kinds that every run of many schedules has."""
    return [word for word, kind in KINDS.items() if kind.weight]
