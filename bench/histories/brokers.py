"""What all partitions of a cluster share: its processes, its controllers, and who can be scraped.

Called by `partition`, `signals`, `scrapes` and `truth`. It is small however many topics there are.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from .plan import FaultKind, Plan
from .steps import HANDOVER_MS, LEASE_MS, Action, Step, steps_of

BEFORE_MS: Final = 3_600_000
"""The cluster had been well for so long when the range begins."""


class Scrape(StrEnum):
    """What becomes of an attempt to scrape a broker."""

    SAMPLES = "samples"
    FAILED = "failed"
    """up is 0, and all series of the broker are stale."""
    NOTHING = "nothing"
    """Prometheus itself did not run."""


class Span(NamedTuple):
    """A half-open range of time."""

    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerTerm:
    """A broker is the controller from at_ms on."""

    at_ms: int
    epoch: int
    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHistory:
    """What happened to the brokers of a cluster."""

    plan: Plan
    steps: tuple[Step, ...]
    processes: tuple[tuple[Span, ...], ...]
    """By broker, oldest first; the last one ends where the range ends, or later."""
    unreachable: tuple[tuple[Span, ...], ...]
    """By broker: Prometheus tried and did not reach it although its process ran."""
    unscraped: tuple[Span, ...]
    """Prometheus did not try."""
    controllers: tuple[ControllerTerm, ...]

    def process_at(self, broker: int, time_ms: int) -> int | None:
        """Return the number of the broker's process at a time, None if there is none."""
        return _found(self.processes[broker], time_ms)

    def starts(self, broker: int) -> list[tuple[int, bool]]:
        """Return when each process began, and whether the one before ended without a word."""
        handed = {
            step.at_ms + HANDOVER_MS
            for step in self.steps
            if step.action == Action.HAND_OVER and step.broker == broker
        }
        spans = self.processes[broker]
        after = [False, *(span.until_ms not in handed for span in spans)]
        return [(span.from_ms, is_unclean) for span, is_unclean in zip(spans, after, strict=False)]

    def scrape(self, broker: int, time_ms: int) -> Scrape:
        """Return what becomes of an attempt to scrape a broker at a time."""
        if _found(self.unscraped, time_ms) is not None:
            return Scrape.NOTHING
        if self.process_at(broker, time_ms) is None:
            return Scrape.FAILED
        hidden = _found(self.unreachable[broker], time_ms) is not None
        return Scrape.FAILED if hidden else Scrape.SAMPLES


def happened(plan: Plan) -> ClusterHistory:
    """Return what a plan's faults do to its brokers."""
    made = _Made(plan)
    for index, fault in enumerate(plan.faults):
        chance = plan.chance("steps", index)
        hits = fault.broker == made.controllers[-1].broker
        for step in steps_of(plan, fault, chance, hits_controller=hits):
            made.take(step)
        if fault.kind == FaultKind.CONTROLLER_LOSS:
            made.next_controller(fault.at_ms + chance.randrange(*LEASE_MS))
        if fault.kind == FaultKind.SCRAPE_GAP:
            gap = Span(fault.at_ms, fault.until_ms)
            if fault.broker is None:
                made.unscraped.append(gap)
            else:
                made.unreachable[fault.broker].append(gap)
    return made.history()


class _Made:
    """A history in the making."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.steps: list[Step] = []
        begin = plan.start_ms - BEFORE_MS
        self.begun: dict[int, int] = dict.fromkeys(range(plan.brokers), begin)
        """By broker with a process: its start."""
        self.cut: dict[int, Step] = {}
        self.processes: list[list[Span]] = [[] for _ in range(plan.brokers)]
        self.unreachable: list[list[Span]] = [[] for _ in range(plan.brokers)]
        self.unscraped: list[Span] = []
        self.controllers = [ControllerTerm(at_ms=begin, epoch=1, broker=0)]

    def take(self, step: Step) -> None:
        self.steps.append(step)
        broker = step.broker
        if broker is None:
            return
        match step.action:
            case Action.DIE:
                self.processes[broker].append(Span(self.begun.pop(broker), step.at_ms))
            case Action.START:
                self.begun[broker] = step.at_ms
            case Action.CUT:
                self.cut[broker] = step
            case Action.HEAL:
                begin = self.cut.pop(broker)
                if begin.hidden:
                    self.unreachable[broker].append(Span(begin.at_ms, step.at_ms))
            case Action.LOST if broker == self.controllers[-1].broker:
                self.next_controller(step.at_ms)
            case _:
                pass

    def next_controller(self, at_ms: int) -> None:
        """Make the next live broker the controller, or the same one again if it is alone."""
        last = self.controllers[-1]
        order = [(last.broker + 1 + each) % self.plan.brokers for each in range(self.plan.brokers)]
        live = [each for each in order if each in self.begun and each not in self.cut]
        term = ControllerTerm(at_ms=at_ms, epoch=last.epoch + 1, broker=(live or order)[0])
        self.controllers.append(term)

    def history(self) -> ClusterHistory:
        end_ms = self.plan.end_ms
        for broker, begin in self.begun.items():
            self.processes[broker].append(Span(begin, end_ms + BEFORE_MS))
        return ClusterHistory(
            plan=self.plan,
            steps=tuple(sorted(self.steps, key=lambda step: step.at_ms)),
            processes=tuple(map(tuple, self.processes)),
            unreachable=tuple(map(tuple, self.unreachable)),
            unscraped=tuple(self.unscraped),
            controllers=tuple(self.controllers),
        )


def _found(spans: tuple[Span, ...], time_ms: int) -> int | None:
    """Return the number of the span in which a time lies, None if there is none."""
    place = bisect_right(spans, time_ms, key=lambda span: span.from_ms) - 1
    return place if place >= 0 and time_ms < spans[place].until_ms else None
