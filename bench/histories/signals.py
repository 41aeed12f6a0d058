"""Every series that the brokers of a history show: its labels, when it is there, and its value.

Called by `written` with one topic at a time. Labels are those of brokers and of the chart's scrape
configuration. A series is a sum of lines, so its value at any moment is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from strandline import names

from .brokers import ClusterHistory
from .lines import Line
from .replicas import PartitionHistory, Replica, Shown, Stored, TrueElection

UP: Final = "up"
NAMESPACE: Final = "strandline"
RECORD_BYTES: Final = 100
"""Size of each record that clients append."""
TRUNCATION_REASON: Final = "diverged"
KINDS: Final = ("offline", "controlled_shutdown", "preferred", "unclean")

Presence = tuple[tuple[int, bool], ...]
"""From when on a series is there or not; before the first it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One series, told for every moment."""

    labels: dict[str, str]
    broker: int
    presence: Presence
    lines: tuple[Line, ...] = ()
    """Their sum, times `times` and divided by `per`, is the value; `up` has none."""
    times: int = 1
    per: int = 1

    def at(self, time_ms: int) -> float | None:
        """Return the value at a time, None if the series is not there."""
        there = False
        for begin, shown in self.presence:
            if begin > time_ms:
                break
            there = shown
        if not there:
            return None
        return sum(line.at(time_ms) for line in self.lines) * self.times / self.per


SHOWN: Final = (
    names.PARTITION_LEADER_EPOCH,
    names.PARTITION_IS_LEADER,
    names.PARTITION_LOG_END_OFFSET,
    names.PARTITION_HIGH_WATERMARK,
    names.PARTITION_LOG_START_OFFSET,
    names.PARTITION_LOG_SIZE_BYTES,
    names.PARTITION_REPLICAS,
    names.PARTITION_ISR_SIZE,
    names.PARTITION_MIN_INSYNC_REPLICAS,
    names.PARTITION_PARTITION_EPOCH,
    names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
    names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS,
    names.PARTITION_ISR_MEMBER,
    names.REPLICA_LOG_END_OFFSET,
    names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS,
    names.ISR_SHRINKS_TOTAL,
    names.ISR_EXPANDS_TOTAL,
    names.TRUNCATIONS_TOTAL,
    names.TRUNCATED_RECORDS_TOTAL,
    names.TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL,
    names.PRODUCED_RECORDS_TOTAL,
    names.PRODUCED_BYTES_TOTAL,
    names.BROKER_START_TIMESTAMP_SECONDS,
    names.BROKER_EPOCH,
    names.UNCLEAN_STARTS_TOTAL,
    names.CONTROLLER_ACTIVE,
    names.CONTROLLER_EPOCH,
    names.LEADER_ELECTIONS_TOTAL,
)
"""What a history shows besides `up`."""
METRICS: Final = tuple(sorted({UP, *(metric.name for metric in SHOWN)}))


def of_partition(cluster: ClusterHistory, history: PartitionHistory) -> Iterator[Signal]:
    """Yield the series that the replicas of a partition show."""
    for replica in history.replicas:
        source = _Source(cluster, replica.broker, history.topic, history.partition)
        yield from _of_replica(source, replica)
        yield from _of_leader(source, replica, history)


def of_topic(cluster: ClusterHistory, histories: Sequence[PartitionHistory]) -> Iterator[Signal]:
    """Yield the series that brokers show for a whole topic.

    Shape:   histories are all partitions of one topic
    """
    topic = histories[0].topic
    for broker in range(cluster.plan.brokers):
        found = [each for one in histories for each in one.replicas if each.broker == broker]
        lines = tuple(replica.produced for replica in found)
        if not lines:
            continue
        source, presence = _Source(cluster, broker, topic), _processes(cluster, broker)
        yield source.signal(names.PRODUCED_RECORDS_TOTAL, presence, *lines)
        yield source.signal(names.PRODUCED_BYTES_TOTAL, presence, *lines, times=RECORD_BYTES)


def of_cluster(cluster: ClusterHistory, elections: Iterable[TrueElection]) -> Iterator[Signal]:
    """Yield the series that brokers show once, and `up`.

    Shape:   elections are those of all partitions
    """
    ordered = sorted((each.at_ms, each.kind) for each in elections)
    terms = cluster.controllers
    for broker in range(cluster.plan.brokers):
        source, presence = _Source(cluster, broker), _processes(cluster, broker)
        spans = cluster.processes[broker]
        started = _stepped((span.from_ms, span.from_ms) for span in spans)
        yield source.signal(names.BROKER_START_TIMESTAMP_SECONDS, presence, started, per=1000)
        epochs = _stepped((span.from_ms, number + 1) for number, span in enumerate(spans))
        yield source.signal(names.BROKER_EPOCH, presence, epochs)
        unclean = _stepped((at, int(is_unclean)) for at, is_unclean in cluster.starts(broker))
        yield source.signal(names.UNCLEAN_STARTS_TOTAL, presence, unclean)
        active = _stepped((term.at_ms, int(term.broker == broker)) for term in terms)
        yield source.signal(names.CONTROLLER_ACTIVE, presence, active)
        obeyed = _stepped((term.at_ms, term.epoch) for term in terms)
        yield source.signal(names.CONTROLLER_EPOCH, presence, obeyed)
        if any(term.broker == broker for term in terms):
            for kind in KINDS:
                counted, office = _counted(cluster, broker, ordered, kind)
                yield source.signal(names.LEADER_ELECTIONS_TOTAL, office, counted, kind=kind)
        yield source.signal(UP, ())


def _of_replica(source: _Source, replica: Replica) -> Iterator[Signal]:
    there = _shown_where(replica.shown, lambda _: True)
    epochs = _told(replica.shown, lambda state: state.epoch)
    leads = _stepped((shown.at_ms, int(shown.leads)) for shown in replica.shown)
    yield source.signal(names.PARTITION_LEADER_EPOCH, there, epochs)
    yield source.signal(names.PARTITION_IS_LEADER, there, leads)
    yield source.signal(names.PARTITION_LOG_END_OFFSET, there, replica.end)
    yield source.signal(names.PARTITION_HIGH_WATERMARK, there, replica.watermark)
    start = _stepped([(replica.shown[0].at_ms, 0)])
    yield source.signal(names.PARTITION_LOG_START_OFFSET, there, start)
    yield source.signal(names.PARTITION_LOG_SIZE_BYTES, there, replica.end, times=RECORD_BYTES)
    # A counter with a label for the reason is there from the first time on.
    begun = _while_counted(there, replica.truncations)
    if any(is_there for _, is_there in begun):
        for metric, line in (
            (names.TRUNCATIONS_TOTAL, replica.truncations),
            (names.TRUNCATED_RECORDS_TOTAL, replica.truncated),
            (names.TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL, replica.truncated_below),
        ):
            yield source.signal(metric, begun, line, reason=TRUNCATION_REASON)


def _of_leader(source: _Source, replica: Replica, history: PartitionHistory) -> Iterator[Signal]:
    shown = replica.shown
    leading = _shown_where(shown, lambda each: each.leads)
    if not any(is_there for _, is_there in leading):
        return
    constants = {
        names.PARTITION_REPLICAS: len(history.replicas),
        names.PARTITION_MIN_INSYNC_REPLICAS: history.min_isr,
    }
    for metric, value in constants.items():
        yield source.signal(metric, leading, _stepped([(shown[0].at_ms, value)]))
    sizes = _told(shown, lambda state: len(state.isr))
    yield source.signal(names.PARTITION_ISR_SIZE, leading, sizes)
    versions = _told(shown, lambda state: state.version)
    yield source.signal(names.PARTITION_PARTITION_EPOCH, leading, versions)
    since = _told(shown, lambda state: state.since_ms)
    yield source.signal(names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS, leading, since, per=1000)
    changed = _told(shown, lambda state: state.changed_ms)
    yield source.signal(
        names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS, leading, changed, per=1000
    )
    yield source.signal(names.ISR_SHRINKS_TOTAL, leading, replica.shrinks)
    yield source.signal(names.ISR_EXPANDS_TOTAL, leading, replica.expands)
    for other in history.replicas:
        label = str(other.broker)
        member = _told(shown, partial(_member, other.broker))
        yield source.signal(names.PARTITION_ISR_MEMBER, leading, member, replica=label)
        if other is not replica:
            end, caught_up = other.seen_end, other.caught_up
            yield source.signal(names.REPLICA_LOG_END_OFFSET, leading, end, replica=label)
            yield source.signal(
                names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS,
                leading,
                caught_up,
                per=1000,
                replica=label,
            )


class _Source:
    """Who shows a series: a broker, and the topic or partition that it is about."""

    def __init__(
        self, cluster: ClusterHistory, broker: int, topic: str = "", partition: int | None = None
    ) -> None:
        pod = f"{cluster.plan.cluster}-{broker}"
        self.broker = broker
        self.labels = {
            "cluster": cluster.plan.cluster,
            "instance": f"{pod}:8080",
            "namespace": NAMESPACE,
            "pod": pod,
        }
        if topic:
            self.labels["topic"] = topic
        if partition is not None:
            self.labels["partition"] = str(partition)

    def signal(
        self,
        metric: names.Metric | str,
        presence: Presence,
        *lines: Line,
        times: int = 1,
        per: int = 1,
        **labels: str,
    ) -> Signal:
        name = metric if isinstance(metric, str) else metric.name
        return Signal(
            labels={"__name__": name, **self.labels, **labels},
            broker=self.broker,
            presence=presence,
            lines=lines,
            times=times,
            per=per,
        )


def _stepped(values: Iterable[tuple[int, int]]) -> Line:
    line = Line()
    for at_ms, value in values:
        line.set(at_ms, value)
    return line


def _member(broker: int, state: Stored) -> int:
    return int(broker in state.isr)


def _told(shown: Sequence[Shown], what: Callable[[Stored], int]) -> Line:
    """Return a value of the state that a process knows."""
    return _stepped((each.at_ms, what(each.state)) for each in shown if each.state is not None)


def _shown_where(shown: Sequence[Shown], is_there: Callable[[Shown], bool]) -> Presence:
    """Return when there is a process for which something holds."""
    steps: list[tuple[int, bool]] = []
    for each in shown:
        there = each.state is not None and is_there(each)
        if not steps or steps[-1][1] != there:
            steps.append((each.at_ms, there))
    return tuple(steps)


def _while_counted(there: Presence, line: Line) -> Presence:
    """Return when a series is there and its counter is not 0."""
    times = sorted({at_ms for at_ms, _ in there} | {piece.at_ms for piece in line.pieces})
    steps: list[tuple[int, bool]] = []
    for at_ms in times:
        is_there = [shown for begin, shown in there if begin <= at_ms][-1:] == [True]
        counted = is_there and line.at(at_ms) > 0
        if not steps or steps[-1][1] != counted:
            steps.append((at_ms, counted))
    return tuple(steps)


def _processes(cluster: ClusterHistory, broker: int) -> Presence:
    spans = cluster.processes[broker]
    return tuple(step for span in spans for step in ((span.from_ms, True), (span.until_ms, False)))


def _counted(
    cluster: ClusterHistory, broker: int, ordered: Sequence[tuple[int, str]], kind: str
) -> tuple[Line, Presence]:
    """Return a counter of elections by one controller, and when the broker shows it."""
    line, steps = Line(), list[tuple[int, bool]]()
    ends = [*(term.at_ms for term in cluster.controllers[1:]), cluster.plan.end_ms + 1]
    for term, end_ms in zip(cluster.controllers, ends, strict=True):
        if term.broker != broker:
            continue
        process = cluster.process_at(broker, term.at_ms)
        if process is None:
            continue
        until = min(end_ms, cluster.processes[broker][process].until_ms)
        line.set(term.at_ms, 0)
        for at_ms, which in ordered:
            if term.at_ms <= at_ms < until and which == kind:
                line.set(at_ms, line.at(at_ms) + 1)
        steps += [(term.at_ms, True), (until, False)]
    return line, tuple(steps)
