"""Moves a partition to other replicas, takes a move back, and shows the moves under way.

The wish is `Partition.spec.replicas`; the controller does the rest, also while nobody waits for it
(ADR 0057).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from strandline.errors import ConfigError

from .assignments import Assignment, Assignments, ClusterFound, Replicas, ids
from .cluster_view import HTTP_PORT, METRICS_LIMIT_SECONDS
from .commands import CommandFailed, Say
from .kubectl import ApiProxy, Kubernetes, Object
from .progress import wait
from .tables import Row, show
from .watch import EXPECTED, ReadMetrics
from .watch_state import replicas_of

REPLICAS_MAX: Final = 9
"""maxItems of `Partition.spec.replicas`."""
COLUMNS: Row = ("PARTITION", "LEADER", "WANTED", "BEFORE", "ADDING", "REMOVING", "BEHIND", "STATE")

Ends = Mapping[int, Mapping[str, int]]
"""Log end offsets by broker and partition; nothing of brokers that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveWishes:
    """Where a partition shall be, None for back where it was; wait_seconds 0 only asks."""

    partition: str
    replicas: Replicas | None
    wait_seconds: int
    is_dry_run: bool


def reassign(assignments: Assignments, wishes: MoveWishes, say: Say) -> bool:
    """Write the wish and wait until the partition has moved; tell whether it has.

    Raises:  ConfigError if the wish is refused: nothing is changed; CommandFailed if the API
             server refuses it, or somebody wishes for other replicas meanwhile
    """
    plans: list[tuple[Assignment, Replicas]] = []

    def decide(found: ClusterFound) -> list[Object]:
        (each,) = found.chosen([wishes.partition])
        wanted = back(each, found) if wishes.replicas is None else wishes.replicas
        refuse_wrong(each, wanted, found)
        plans.append((each, wanted))
        return [] if wishes.is_dry_run or wanted == each.wanted else [each.with_replicas(wanted)]

    found = assignments.change(decide)
    before, wanted = plans[-1]
    say(change_line(before, wanted))
    for note in notes(before, wanted, found):
        say(note)
    if wishes.is_dry_run:
        say("nothing is written")
        return True
    if not wishes.wait_seconds:
        say(how_to_follow(before.label))
        return True
    try:
        left = wait(_look(assignments, before.label, wanted), wishes.wait_seconds)
    except KeyboardInterrupt:
        say(f"the move goes on. {how_to_follow(before.label)}")
        raise
    if left:
        say(f"not moved within {wishes.wait_seconds} s, and it goes on. {left[0]}")
        say(how_to_follow(before.label))
        return False
    say(f"{before.label} is on {list(wanted)}")
    return True


def _look(assignments: Assignments, label: str, wanted: Replicas) -> Callable[[], list[str]]:
    def look() -> list[str]:
        found = assignments.read()
        each = found.partitions.get(label)
        if each is None or each.wanted != wanted:
            now = "is deleted" if each is None else f"shall now be on {list(each.wanted)}"
            raise ConfigError(f"{label} {now}: somebody else changed it")
        return [progress_line(each, found)] if each.moves else []

    return look


def how_to_follow(label: str) -> str:
    """Return the commands that show a move and take it back."""
    return f"Follow it with `reassign --status`, take it back with `reassign {label} --cancel`"


def refuse_wrong(each: Assignment, wanted: Replicas, found: ClusterFound) -> None:
    """Raise ConfigError if a partition cannot be, or would not stay, on these brokers."""
    topic = each.found["spec"]["topicName"]
    if not 1 <= len(wanted) <= REPLICAS_MAX:
        raise ConfigError(
            f"--to must name between 1 and {REPLICAS_MAX} brokers, not {len(wanted)}: "
            "nothing changed"
        )
    if twice := sorted({one for one in wanted if wanted.count(one) > 1}):
        raise ConfigError(f"--to must name a broker once, not broker {ids(twice)} twice")
    if unknown := [one for one in wanted if one not in found.brokers]:
        there = ids(sorted(found.brokers))
        raise ConfigError(
            f"--to must name brokers of cluster {found.name}, which are {there}, not "
            f"{ids(unknown)}: nothing changed"
        )
    factor = found.factors.get(topic, len(wanted))
    if len(wanted) != factor:
        raise ConfigError(
            f"--to must name {factor} brokers, as many as spec.replicationFactor of topic {topic}, "
            f"not {len(wanted)}: change that field, and the operator adds or removes replicas"
        )
    if not each.present:
        raise ConfigError(f"{each.label}: no controller has looked at it yet: nothing changed")


def back(each: Assignment, found: ClusterFound) -> Replicas:
    """Return the replicas before the move that is under way; ConfigError without one."""
    if not each.moves:
        raise ConfigError(f"{each.label} does not move: it is on {list(each.present)}")
    factor = found.factors.get(each.found["spec"]["topicName"], len(each.before))
    if len(each.before) != factor:
        raise ConfigError(
            f"{each.label} was on {list(each.before)}, and follows spec.replicationFactor "
            f"{factor} of its topic: change that field back"
        )
    return each.before


def change_line(each: Assignment, wanted: Replicas) -> str:
    """Return what a wish changes."""
    present = each.present or each.wanted
    added = [one for one in wanted if one not in present]
    removed = [one for one in present if one not in wanted]
    if wanted == each.wanted:
        said = "it moves there already" if each.moves else "it is there already"
        return f"{each.label}: replicas {list(wanted)}: {said}"
    parts = [f"replicas {list(each.wanted)} -> {list(wanted)}"]
    parts += [f"adds {ids(added)}"] if added else []
    parts += [f"removes {ids(removed)}"] if removed else []
    parts += [] if added or removed else ["another order"]
    return f"{each.label}: {', '.join(parts)}"


def notes(each: Assignment, wanted: Replicas, found: ClusterFound) -> list[str]:
    """Return what will hold the move up, as far as objects tell."""
    added = [one for one in wanted if one not in each.present]
    amiss = [found.broker_amiss(one) for one in added]
    return [f"it waits: {why}" for why in amiss if why]


def progress_line(each: Assignment, found: ClusterFound) -> str:
    """Return how far the move of a partition is."""
    return f"{each.label}: {state(each, found)}"


def state(each: Assignment, found: ClusterFound) -> str:
    """Return how far a move is, in a sentence."""
    if not each.present:
        return "no controller has looked at it yet"
    if each.leader == -1:
        return f"it waits for a leader: {each.reason or 'no replica in sync is in session'}"
    missing = [one for one in each.wanted if one not in each.present]
    if missing:
        amiss = [why for one in missing if (why := found.broker_amiss(one))]
        why = "; ".join(amiss) or "brokers must be in session, and few partitions copy at once"
        return f"it waits to add {ids(missing)}: {why}"
    if copying := [one for one in each.adding if one in each.wanted and one not in each.isr]:
        joined = [one for one in each.adding if one in each.isr]
        return f"{ids(copying)} copy" + (f", {ids(joined)} are in sync" if joined else "")
    in_sync = [one for one in each.wanted if one in each.isr]
    going = f"; {ids(each.removing)} go next" if each.removing else ""
    return f"{len(in_sync)} of {len(each.wanted)} are in sync{going}"


# --- the moves under way --------------------------------------------------------------------


def show_moves(
    assignments: Assignments,
    words: Sequence[str],
    say: Say,
    *,
    read_metrics: ReadMetrics | None = None,
) -> None:
    """Print each partition that moves; ConfigError if a word names no partition."""
    found = assignments.read()
    chosen = found.chosen(words) if words else found.partitions.values()
    moving = [each for each in chosen if each.moves]
    if not moving:
        say("no partition moves")
        return
    ends = log_ends(assignments.kubernetes, found.name, moving, read_metrics)
    show(COLUMNS, [move_row(each, found, ends) for each in moving], left=COLUMNS)


def move_row(each: Assignment, found: ClusterFound, ends: Ends) -> Row:
    """Return the line of a partition that moves."""
    return (
        each.label,
        "none" if each.leader == -1 else str(each.leader),
        ids(each.wanted),
        ids(each.before),
        ids(each.adding),
        ids(each.removing),
        behind(each, ends),
        state(each, found),
    )


def behind(each: Assignment, ends: Ends) -> str:
    """Return how many records the brokers that copy lack, "-" if nobody can tell."""
    leader_end = ends.get(each.leader, {}).get(each.label)
    lags: list[str] = []
    for one in each.adding:
        end = ends.get(one, {}).get(each.label)
        if one not in each.isr and leader_end is not None and end is not None:
            lags.append(f"{one}: {max(0, leader_end - end)}")
    return ", ".join(lags) or "-"


def log_ends(
    kubernetes: Kubernetes,
    cluster: str,
    moving: Sequence[Assignment],
    read_metrics: ReadMetrics | None,
) -> dict[int, dict[str, int]]:
    """Read the log end offsets of leaders and of brokers that are added, as far as they respond."""
    concerned = sorted({one for each in moving for one in (each.leader, *each.adding)} - {-1})
    found: dict[int, dict[str, int]] = {}
    pods = f"/api/v1/namespaces/{kubernetes.namespace}/pods"

    def page(proxy: ApiProxy, pod: str) -> str:
        path = f"{pods}/{pod}:{HTTP_PORT}/proxy/metrics"
        return proxy.get(path, limit_seconds=METRICS_LIMIT_SECONDS)

    try:
        proxy = ApiProxy(kubernetes)
    except CommandFailed:
        return found
    try:
        for broker in concerned:
            with suppress(*EXPECTED):
                text = (read_metrics or page)(proxy, f"{cluster}-{broker}")
                found[broker] = {
                    f"{topic}/{number}": seen.log_end_offset
                    for (topic, number), seen in replicas_of(text).items()
                    if seen.log_end_offset >= 0
                }
    finally:
        proxy.close()
    return found
