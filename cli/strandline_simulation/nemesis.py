"""Injects faults. To add one, write a function here and give it a word: nothing else changes.

Plans name a fault by its word; the generator draws from `KINDS`; the summary counts them. A
function does its harm and returns the word under which it counts, "" if it met no target: a
planned fault that had no effect proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.model import NO_LEADER, BrokerId, HolderIdentity

from .environment import SimulatedEnvironment
from .fault_counts import Anomaly
from .hosts import Hosts
from .loss_budget import LossBudget
from .plan import ANY_PEER, Fault
from .process import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind of fault; the generator draws it `weight` times as often as one of weight 1.

    One of weight 0 is for directed plans alone: drawing it would change the plan of every seed.
    """

    word: str
    weight: int
    inject: Callable[[Nemesis, Fault], str]


KINDS: dict[str, FaultKind] = {}
"""By word, in the order in which the generator draws."""


def _kind(
    word: str, *, weight: int = 1
) -> Callable[[Callable[[Nemesis, Fault], str]], Callable[[Nemesis, Fault], str]]:
    def register(inject: Callable[[Nemesis, Fault], str]) -> Callable[[Nemesis, Fault], str]:
        KINDS[word] = FaultKind(word=word, weight=weight, inject=inject)
        return inject

    return register


class Nemesis:
    """The faults of one schedule; each happens at its time, to the broker of that role then."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        hosts: Hosts,
        loss_budget: LossBudget,
        faults: tuple[Fault, ...],
    ) -> None:
        """Schedule the faults.

        Raises:  ValueError for a word that names no kind of fault
        """
        self.environment = environment
        self.hosts = hosts
        self.loss_budget = loss_budget
        unknown = sorted({fault.kind for fault in faults} - KINDS.keys())
        if unknown:
            raise ValueError(f"unknown kinds of faults: {unknown}")
        for fault in faults:
            environment.virtual_time.at(fault.at_ms, self.inject, fault)

    def inject(self, fault: Fault) -> None:
        """Inject a fault now, and count what took effect."""
        self.environment.trace.record(fault.target, fault)
        effective = KINDS[fault.kind].inject(self, fault)
        if effective:
            self.environment.fault_counts[effective] += 1

    def until_ms(self, fault: Fault) -> int:
        """Return when a fault that begins now ends."""
        return self.environment.virtual_time.now_ms + fault.for_ms

    def target(self, fault: Fault) -> BrokerId | None:
        """Return the broker that a fault means now, None if no broker has that role."""
        store = self.environment.api.store
        role, _, number = fault.target.partition(":")
        if role == "controller":
            holder = HolderIdentity.parse(store.lease.holder_identity)
            return None if holder is None else holder.broker_id
        if not number:
            return BrokerId(int(fault.target))
        state = store.partitions[f"topic-{number}"].state
        if state is None:
            return None
        if role == "leader":
            return None if state.leader == NO_LEADER else state.leader
        return next((member for member in state.isr_ids if member != state.leader), None)

    def running_target(self, fault: Fault) -> tuple[BrokerId, Process] | None:
        """Return the broker that a fault means and its process, None without either."""
        target = self.target(fault)
        process = None if target is None else self.hosts.process(target)
        return None if target is None or process is None else (target, process)


# --- processes and hosts ------------------------------------------------------------------


@_kind("crash", weight=4)
def crash(nemesis: Nemesis, fault: Fault) -> str:
    """Kill the process; the page cache, and with it the log, survives."""
    found = nemesis.running_target(fault)
    if found is None:
        return ""
    nemesis.hosts.crash(found[0], fault.for_ms)
    return "crash"


@_kind("power_loss", weight=3)
def power_loss(nemesis: Nemesis, fault: Fault) -> str:
    """Cut the power of a host: unflushed records are lost, the boot id changes."""
    found = nemesis.running_target(fault)
    if found is None or not nemesis.loss_budget.may_lose(found[0]):
        return crash(nemesis, fault)
    if nemesis.hosts.lose_power(found[0], fault.for_ms, fault.keep_per_mille) > 0:
        nemesis.environment.fault_counts[Anomaly.TAIL_LOST] += 1
    _count_loss(nemesis, found[0], wiped=False)
    return "power_loss"


@_kind("wipe")
def wipe(nemesis: Nemesis, fault: Fault) -> str:
    """Let the broker come back with an empty disk."""
    found = nemesis.running_target(fault)
    if found is None or not nemesis.loss_budget.may_lose(found[0]):
        return crash(nemesis, fault)
    nemesis.hosts.wipe(found[0], fault.for_ms)
    _count_loss(nemesis, found[0], wiped=True)
    return "wipe"


def _count_loss(nemesis: Nemesis, target: BrokerId, *, wiped: bool) -> None:
    nemesis.loss_budget.on_lost(target)
    nemesis.environment.invariants.on_data_lost(target, wiped=wiped)


@_kind("pause", weight=2)
def pause(nemesis: Nemesis, fault: Fault) -> str:
    """Freeze the process; what arrives waits."""
    found = nemesis.running_target(fault)
    if found is None:
        return ""
    life = found[1].life
    life.pause()
    nemesis.environment.virtual_time.after(fault.for_ms, life.resume)
    return "pause"


@_kind("stop")
def stop(nemesis: Nemesis, fault: Fault) -> str:
    """Stop the process in order: leaders are moved, all is flushed, the marker is written."""
    found = nemesis.running_target(fault)
    if found is None:
        return ""
    nemesis.hosts.stop(found[0], fault.for_ms)
    return "stop"


# --- the network --------------------------------------------------------------------------


@_kind("cut", weight=3)
def cut(nemesis: Nemesis, fault: Fault) -> str:
    """Lose what the target sends to the peer, in this direction only."""
    target = nemesis.target(fault)
    if target is None:
        return ""
    nemesis.environment.network.cut(target, fault.peer, nemesis.until_ms(fault))
    return "cut"


@_kind("isolate")
def isolate(nemesis: Nemesis, fault: Fault) -> str:
    """Lose everything to and from the target; the API server answers it."""
    target = nemesis.target(fault)
    if target is None:
        return ""
    nemesis.environment.network.cut(target, ANY_PEER, nemesis.until_ms(fault))
    nemesis.environment.network.cut(ANY_PEER, target, nemesis.until_ms(fault))
    return "isolate"


# --- the API server -----------------------------------------------------------------------


@_kind("api_outage")
def api_outage(nemesis: Nemesis, fault: Fault) -> str:
    """Let the API server answer no caller."""
    nemesis.environment.api.outage(nemesis.until_ms(fault))
    return "api_outage"


@_kind("api_cut")
def api_cut(nemesis: Nemesis, fault: Fault) -> str:
    """Let the API server not answer the target."""
    target = nemesis.target(fault)
    if target is None:
        return ""
    nemesis.environment.api.cut(target, nemesis.until_ms(fault))
    return "api_cut"


@_kind("api_slow", weight=0)
def api_slow(nemesis: Nemesis, fault: Fault) -> str:
    """Apply what the target asks for at the end of the fault only, long after it gave up."""
    target = nemesis.target(fault)
    if target is None:
        return ""
    nemesis.environment.api.hold_back(target, nemesis.until_ms(fault))
    return "api_slow"


@_kind("watch_lost")
def watch_lost(nemesis: Nemesis, fault: Fault) -> str:
    """End the target's watches with 410 Gone."""
    found = nemesis.running_target(fault)
    if found is None:
        return ""
    nemesis.environment.api.expire_watches(found[0])
    return "watch_lost"


DRAWN_KINDS = tuple(word for word, kind in KINDS.items() if kind.weight)
"""The kinds that every run of many schedules has."""
