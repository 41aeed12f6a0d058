"""Moves every replica away from a broker, and waits until it holds none.

Each look plans anew from the present objects: a drain that ended goes on when it is run again, and
partitions that come meanwhile are moved, too. The operator's placement chooses who takes what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.errors import ConfigError
from strandline.model import BrokerId, TopicId
from strandline_operator.placement import Assigned, Takers

from .assignments import Assignment, Assignments, ClusterFound, Replicas, ids
from .commands import Say
from .kubectl import Object
from .progress import wait
from .reassign import progress_line
from .tables import Row, show

COLUMNS: Row = ("PARTITION", "REPLICAS", "WANTED", "TAKES IT")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainWishes:
    """Which broker shall hold nothing; wait_seconds 0 only asks."""

    broker: int
    wait_seconds: int
    is_dry_run: bool


def drain(assignments: Assignments, wishes: DrainWishes, say: Say) -> bool:
    """Move all replicas away from a broker; tell whether it holds none now.

    Raises:  ConfigError if there is no such broker or a replica would not fit elsewhere: nothing
             is changed; CommandFailed if the API server refuses a write
    """
    broker = wishes.broker
    first: dict[str, Assignment] = {}
    wanted: dict[str, Replicas] = {}

    def decide(found: ClusterFound) -> list[Object]:
        plan = planned(found, broker)
        first.update({label: found.partitions[label] for label in plan})
        wanted.update(plan)
        return [found.partitions[label].with_replicas(replicas) for label, replicas in plan.items()]

    if wishes.is_dry_run:
        decide(assignments.read())
        _show_plan(first, wanted, broker, say)
        say("nothing is written")
        return True
    found = assignments.change(decide)
    _show_plan(first, wanted, broker, say)
    if not (first or left(found, broker)):
        say(empty(broker))
        return True
    if not wishes.wait_seconds:
        say(how_to_go_on(broker))
        return True
    try:
        rest = wait(lambda: left(assignments.change(decide), broker), wishes.wait_seconds)
    except KeyboardInterrupt:
        say(f"the moves go on. {how_to_go_on(broker)}")
        raise
    if rest:
        say(f"not empty within {wishes.wait_seconds} s; the moves go on. {how_to_go_on(broker)}")
        return False
    say(empty(broker))
    return True


def empty(broker: int) -> str:
    """Return what is true at the end, and what is not."""
    return (
        f"broker {broker} holds no replica any more; the operator may place new partitions on it, "
        "as long as it is one of the cluster's"
    )


def how_to_go_on(broker: int) -> str:
    """Return the commands that follow, finish and take back a drain."""
    return (
        f"Follow it with `reassign --status`, go on with `drain {broker}`, take a move back with "
        "`reassign TOPIC/PARTITION --cancel`"
    )


def planned(found: ClusterFound, broker: int) -> dict[str, Replicas]:
    """Return the wanted replicas of each partition that must still be told to leave a broker.

    A partition without a status has its first replicas still to come, so it waits.

    Raises:  ConfigError if there is no such broker, or a partition does not fit on the others
    """
    if broker not in found.brokers:
        there = ids(sorted(found.brokers))
        raise ConfigError(
            f"BROKER must be a broker of cluster {found.name}, which has {there}, not {broker}"
        )
    assigned = {label: assigned_of(each) for label, each in found.partitions.items()}
    leaving = {
        label: assigned[label]
        for label, each in found.partitions.items()
        if broker in each.wanted and each.present
    }
    unfit = {one: why for one in found.brokers if (why := found.broker_amiss(one))}
    takers = Takers(
        list(assigned.values()),
        away=BrokerId(broker),
        brokers=[BrokerId(one) for one in found.brokers],
        fit=[BrokerId(one) for one in found.brokers if one not in unfit],
        racks=found.racks,
    )
    for label, each in leaving.items():
        if not takers.options(each):
            raise ConfigError(_does_not_fit(label, each, found, broker, unfit))
    chosen = takers.choose(list(leaving.values()))
    return {label: tuple(chosen[each]) for label, each in leaving.items()}


def assigned_of(each: Assignment) -> Assigned:
    """Return a partition as the placement knows it."""
    spec = each.found["spec"]
    return Assigned(
        topic_id=TopicId(spec["topicId"]),
        partition=spec["partition"],
        replicas=tuple(BrokerId(one) for one in each.wanted),
    )


def left(found: ClusterFound, broker: int) -> list[str]:
    """Return a line for each partition that a broker still has, or shall have."""
    return [
        progress_line(each, found)
        for each in found.partitions.values()
        if broker in each.wanted or broker in each.present
    ]


def _does_not_fit(
    label: str, each: Assigned, found: ClusterFound, broker: int, unfit: dict[int, str]
) -> str:
    others = sorted(set(found.brokers) - {broker})
    amiss = [why for one, why in sorted(unfit.items()) if one in others]
    because = f" ({'; '.join(amiss)})" if amiss else ""
    return (
        f"{label} has {len(each.replicas)} replicas, which need as many brokers, and without "
        f"broker {broker} there are {len(others)}{because}: nothing is moved"
    )


def _show_plan(
    first: dict[str, Assignment], wanted: dict[str, Replicas], broker: int, say: Say
) -> None:
    if not first:
        return
    rows = [plan_row(each, wanted[label]) for label, each in sorted(first.items())]
    show(COLUMNS, rows, left=COLUMNS)
    takes = [row[-1] for row in rows]
    shares = ", ".join(f"{takes.count(one)} to {one}" for one in sorted(set(takes)))
    say(f"replicas that leave broker {broker}: {shares}")


def plan_row(each: Assignment, wanted: Sequence[int]) -> Row:
    """Return the line of a partition that leaves a broker."""
    taker = next(one for one in wanted if one not in each.wanted)
    return each.label, ids(each.wanted), ids(wanted), f"broker {taker}"
