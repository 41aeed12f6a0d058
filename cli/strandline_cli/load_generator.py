"""Write a topic at a steady rate, read it again, and keep a history of every record.

The producer is idempotent, with acks=all; its library retries, this program never does. The
program writes a line to the history before it hands a record to the library, and an outcome line
when the library knows the outcome (see `strandline_checker.history`). A delivery that timed out is
unknown, and the library then begins a new producer epoch: records that it had sent by then, and
whose outcome it did not know, may be in the log twice.

From time to time the program prints a line of JSON with, per partition, the acknowledgements so
far, the time since the last one, and the longest time without one that passed, in whole or in
part, since the previous line. SIGTERM ends the load early: the program still waits for outstanding
records, up to the delivery timeout. On demand a consumer reads all partitions from their
beginnings, and at the end up to the last acknowledged record.

A load without an end writes a summary instead of a growing history: a file of JSON, replaced as
a whole with each report (see `load_figures`), and of the history only the newest lines. Its
consumer begins at the end of the log. With an id it goes on with the figures of the process before
(see `load_carried`).
"""

from __future__ import annotations

import json
import signal
import sys
import time
import uuid
from collections import Counter
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from strandline_checker.history import SendOutcome, Sent, outcome_line, sent_line

from .load_carried import FiguresRecords, State, newest_figures
from .load_consumer import CONNECTION, TAKEN_MAX, LoadConsumer
from .load_figures import Figures, ReadBack, records_sent_again
from .load_history import HistoryFile, NewestHistory

UNKNOWN_ERRORS = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - the library names its local errors so
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    }
)
"""Errors of a delivery after which the record may be in the log."""
OUTSTANDING_MAX = 100_000
"""Records whose outcome is awaited, in equal parts for all partitions. A partition with its part
gets no other, which bounds memory and history; the others go on, or their gaps were the load's."""
READ_OUT_SECONDS = 30.0
"""How long the consumer may take at the end to read the last acknowledged records."""
FIGURES_MAX = 1
"""Records with figures of the load that wait besides (`load_carried`)."""
POLL_SECONDS_MAX = 0.01
"""The longest pause between two checks for records that are due."""
LAST_FIGURES_SECONDS = 5.0
"""How long a load waits at its end for the acknowledgement of its figures."""


def now_ms() -> float:
    """Return the monotonic clock; histories of one machine share it."""
    return time.monotonic() * 1000


@dataclass(slots=True, kw_only=True)
class Load:
    """One producer's run: counts of outcomes, and when each partition last acknowledged.

    ends holds, by partition, the offset after the last acknowledged record; gap_ms the longest
    time without an acknowledgement that ended since the last report.
    """

    producer: Producer
    topic: str
    history: HistoryFile
    name: str
    consumer: LoadConsumer | None = None
    figures: Figures | None = None
    read_back: ReadBack | None = None
    carried: FiguresRecords | None = None
    pods: int = 1
    read_before: int = 0
    outstanding: Counter[int] = field(default_factory=Counter)
    acked: dict[int, int] = field(default_factory=dict)
    unknown: int = 0
    failed: int = 0
    last_ack_ms: dict[int, float] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    gap_ms: dict[int, float] = field(default_factory=dict)

    def send(self, partition: int, sequence: int) -> None:
        """Write a record's line to the history, then hand the record to the library."""
        value = f"{self.name}-{partition}-{sequence}"
        sent = Sent(
            producer=self.name,
            partition=partition,
            sequence=sequence,
            value=value,
            sent_ms=now_ms(),
        )
        self.history.write(sent_line(sent) + "\n")
        if self.figures is not None:
            self.figures.on_sent(partition, sent.sent_ms)
        done = partial(self._done, value, partition, sent.sent_ms)
        self.producer.produce(self.topic, value.encode(), partition=partition, on_delivery=done)
        self.outstanding[partition] += 1

    def send_due(self, sent: list[int], due: int) -> None:
        """Send each partition its records before number due, or fewer; sent counts them.

        No more are sent at once than the consumer takes, or one to each partition.
        """
        turn, awaited_max = max(1, TAKEN_MAX // len(sent)), OUTSTANDING_MAX // len(sent)
        for partition in range(len(sent)):
            room = min(turn, awaited_max - self.outstanding[partition])
            for _ in range(min(room, due - sent[partition])):
                self.send(partition, sent[partition])
                sent[partition] += 1

    def _done(
        self,
        value: str,
        partition: int,
        sent_ms: float,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        ended, offset = now_ms(), -1
        self.outstanding[partition] -= 1
        if error is None:
            outcome = SendOutcome.ACKED
            if (acked := message.offset()) is not None:
                offset = acked
            gap = ended - self.last_ack_ms.get(partition, ended)
            self.gap_ms[partition] = max(gap, self.gap_ms.get(partition, 0.0))
            self.acked[partition] = self.acked.get(partition, 0) + 1
            self.last_ack_ms[partition] = ended
            self.ends[partition] = max(offset + 1, self.ends.get(partition, 0))
        elif error.code() in UNKNOWN_ERRORS:
            outcome = SendOutcome.UNKNOWN
            self.unknown += 1
        else:
            outcome = SendOutcome.FAILED
            self.failed += 1
        self.history.write(outcome_line(value, outcome, ended_ms=ended, offset=offset) + "\n")
        if self.figures is not None:
            if error is None:
                self.figures.on_acked(partition, sent_ms, ended)
            else:
                self.figures.on_not_acked(partition, error.name())
        if self.read_back is not None and error is None:
            self.read_back.on_ack(partition, offset, value)

    def report(self, started_ms: float) -> str:
        """Return a report line, and begin to look for longest gaps anew."""
        now = now_ms()
        silent = {each: round(now - last) for each, last in sorted(self.last_ack_ms.items())}
        ended, self.gap_ms = self.gap_ms, {}
        return json.dumps(
            {
                "at_ms": round(now - started_ms),
                "acked": dict(sorted(self.acked.items())),
                "unknown": self.unknown,
                "failed": self.failed,
                "silent_ms": silent,
                "gap_ms": {
                    each: max(gap, round(ended.get(each, 0))) for each, gap in silent.items()
                },
                "read": None if self.consumer is None else sum(self.consumer.next_offset.values()),
            }
        )

    def summary(self, plan: LoadPlan, *, ended: bool) -> dict[str, Any]:
        """Return the figures of the run so far; ended if nothing more is to come."""
        figures = {} if self.figures is None else self.figures.summary(now_ms())
        checks = self.read_back
        compared = {} if checks is None else {each: getattr(checks, each) for each in COMPARED}
        reads = self.consumer
        return {
            "name": self.name,
            "topic": self.topic,
            "partitions": plan.partitions,
            "rate": plan.rate,
            "wall_ms": time.time_ns() // 1_000_000,
            "ended": ended,
            **figures,
            "acked": sum(self.acked.values()),
            "failed": self.failed,
            "unknown": self.unknown,
            "read": self.read_before + (0 if reads is None else reads.read),
            "pods": self.pods,
            "unread": {} if reads is None else reads.unread(self.ends),
            "read_errors": {} if reads is None else reads.errors,
            **compared,
        }

    def state(self, figures: Figures) -> State:
        """Return what the process after this one needs to go on with the figures."""
        checks = self.read_back
        return {
            "pods": self.pods,
            "acked": {str(number): count for number, count in self.acked.items()},
            "failed": self.failed,
            "read": self.read_before + (0 if self.consumer is None else self.consumer.read),
            "figures": figures.state(),
            "compared": {}
            if checks is None
            else {each: getattr(checks, each) for each in COMPARED},
        }

    def go_on(self, state: State, figures: Figures) -> None:
        """Take over the counts of the process before; figures are those that go on."""
        self.pods = state["pods"] + 1
        self.acked = {int(number): count for number, count in state["acked"].items()}
        self.failed = state["failed"]
        # With what was outstanding then: its outcome went with the process.
        self.unknown = figures.sent.total() - sum(self.acked.values()) - self.failed
        self.read_before = state["read"]
        for name, count in state["compared"].items() if self.read_back is not None else ():
            setattr(self.read_back, name, count)


COMPARED = ("checked", "not_there", "deleted", "unchecked", "again", "examples")
"""What a summary has of the comparison of records with their acknowledgements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The options of one run; rate is records a second and partition.

    history_lines is how many lines of the history are kept, 0 for all; without a summary file
    nothing is summed up. goes_on is the id under which figures go on, "" for none.
    """

    bootstrap: str
    topic: str
    partitions: int
    rate: float
    seconds: float
    history: Path
    consume: bool
    report_seconds: float
    delivery_timeout_ms: int
    history_lines: int = 0
    summary: Path | None = None
    goes_on: str = ""


def _run(load: Load, plan: LoadPlan) -> None:
    """Send at the plan's rate for the plan's time, then wait for what is outstanding."""
    stopped = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    started = now_ms()
    sent = [0] * plan.partitions
    next_report = started + plan.report_seconds * 1000
    while not stopped and now_ms() - started < plan.seconds * 1000:
        load.send_due(sent, int((now_ms() - started) / 1000 * plan.rate))
        load.producer.poll(min(1 / plan.rate / 2, POLL_SECONDS_MAX))
        if load.consumer is not None:
            load.consumer.take(load.history)
        if now_ms() >= next_report:
            next_report += plan.report_seconds * 1000
            _tell(load, plan, started)
    load.producer.flush()
    if load.figures is not None:
        count_last_retries(load.producer, load.figures, 2 * plan.report_seconds)
    if load.consumer is not None:
        _read_to_end(load, load.consumer)
    _tell(load, plan, started, ended=True)


def count_last_retries(producer: Producer, figures: Figures, limit_seconds: float) -> None:
    """Wait for the library's next count of what it sent: nothing waits now and hides a retry."""
    before, deadline = figures.retry_counts, now_ms() + limit_seconds * 1000
    while figures.retry_counts == before and now_ms() < deadline:
        producer.poll(POLL_SECONDS_MAX)


def _tell(load: Load, plan: LoadPlan, started: float, *, ended: bool = False) -> None:
    """Print a report and replace the summary, if there shall be one."""
    load.history.flush()
    if (
        load.carried is not None
        and load.figures is not None
        and (ended or load.carried.is_due(now_ms()))
    ):
        load.carried.write(load.state(load.figures), now_ms())
        if ended:
            load.producer.flush(LAST_FIGURES_SECONDS)
    if plan.summary is not None:
        new = plan.summary.with_name(f"{plan.summary.name}.new")
        new.write_text(json.dumps(load.summary(plan, ended=ended)), encoding="utf-8")
        new.replace(plan.summary)
    print(load.report(started), flush=True)


def _read_to_end(load: Load, consumer: LoadConsumer) -> None:
    deadline = now_ms() + READ_OUT_SECONDS * 1000
    while consumer.unread(load.ends) and now_ms() < deadline:
        consumer.take(load.history, wait_seconds=0.1)
    consumer.close()
    if behind := consumer.unread(load.ends):
        print(f"acknowledged, not read in time: {behind} {consumer.errors}", file=sys.stderr)


def generate(plan: LoadPlan) -> int:
    """Run the load; 0 if every record was acknowledged or is unknown."""
    wall_ms, before, figures = time.time_ns() // 1_000_000, None, None
    if plan.summary is not None and plan.goes_on:
        try:
            before = newest_figures(plan.bootstrap, plan.topic, plan.goes_on)
        except KafkaException as error:
            print(f"the library gave up: {error}", file=sys.stderr)
            return 1
    if before is not None:
        figures = Figures.going_on(before["figures"], now_ms=now_ms(), wall_ms=wall_ms)
    elif plan.summary is not None:
        figures = Figures(started_ms=now_ms(), started_wall_ms=wall_ms)
    producer = _producer(plan, figures)
    name = f"load{uuid.uuid4().hex[:8]}"
    read_back = ReadBack(name=f"{name}-") if plan.summary is not None and plan.consume else None
    consumer = None
    with _history(plan) as history:
        try:
            if plan.consume:
                consumer = LoadConsumer(
                    plan.bootstrap,
                    plan.topic,
                    partitions=plan.partitions,
                    name=f"{name}-reader",
                    read_back=read_back,
                )
            load = Load(
                producer=producer,
                topic=plan.topic,
                history=history,
                name=name,
                consumer=consumer,
                figures=figures,
                read_back=read_back,
            )
            if plan.goes_on and figures is not None:
                load.carried = FiguresRecords(producer, plan.topic, plan.goes_on)
                if before is not None:
                    load.go_on(before, figures)
            _run(load, plan)
        except KafkaException as error:
            print(f"the library gave up: {error}", file=sys.stderr)
            return 1
    return 1 if load.failed or (consumer is not None and consumer.unread(load.ends)) else 0


def _producer(plan: LoadPlan, figures: Figures | None) -> Producer:
    settings: dict[str, Any] = {
        **CONNECTION,
        "bootstrap.servers": plan.bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "delivery.timeout.ms": plan.delivery_timeout_ms,
        # The library gives up a request to a silent broker long before its records.
        "socket.timeout.ms": 10_000,
        "queue.buffering.max.messages": OUTSTANDING_MAX + FIGURES_MAX,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 100,
    }
    if figures is None:
        return Producer(settings)

    # How often a record is transmitted is counted nowhere else: a request that is sent again is
    # a new one for the library.
    def note(text: str) -> None:
        figures.on_retries(records_sent_again(json.loads(text)))

    every_ms = round(plan.report_seconds * 1000)
    return Producer({**settings, "statistics.interval.ms": every_ms, "stats_cb": note})


def _history(plan: LoadPlan) -> AbstractContextManager[HistoryFile]:
    if plan.history_lines:
        return closing(NewestHistory(plan.history, plan.history_lines))
    return plan.history.open("w", encoding="utf-8")
