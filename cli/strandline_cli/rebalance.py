"""Moves replicas until all brokers of a cluster hold about as many, and waits for it.

Each look plans anew from the present objects, as a drain does: a rebalance that ended goes on when
it is run again. The rules of who gives what to whom are pure, in the operator's `rebalance`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from strandline.model import BrokerId
from strandline_operator.placement import UNEVEN
from strandline_operator.rebalance import even_moves

from .assignments import Assignment, Assignments, ClusterFound, Replicas, ids
from .commands import Say
from .drain import assigned_of
from .kubectl import Object
from .progress import wait
from .reassign import progress_line
from .tables import Row, show

BROKER_COLUMNS: Row = ("BROKER", "REPLICAS", "AFTER", "PREFERRED", "AFTER", "TAKES NOTHING BECAUSE")
MOVE_COLUMNS: Row = ("PARTITION", "REPLICAS", "WANTED", "MOVES")
HOW_TO_GO_ON: Final = (
    "Follow it with `reassign --status`, go on with `rebalance`, take a move back with "
    "`reassign TOPIC/PARTITION --cancel`"
)
ANOTHER_ORDER: Final = "another order"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWishes:
    """How long to wait, 0 only asks; or only what would be done."""

    wait_seconds: int
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePlan:
    """What a rebalance writes now, and who takes nothing, with the reason.

    found is what it was made of; wanted has the new replicas of each partition by its label.
    """

    found: ClusterFound
    unfit: Mapping[int, str]
    wanted: Mapping[str, Replicas]

    @property
    def objects(self) -> list[Object]:
        """The objects to write."""
        return [
            self.found.partitions[label].with_replicas(replicas)
            for label, replicas in self.wanted.items()
        ]

    @property
    def after(self) -> list[Replicas]:
        """The wanted replicas of all partitions as they become."""
        there = self.found.partitions.items()
        return [self.wanted.get(label, each.wanted) for label, each in there]


def rebalance(assignments: Assignments, wishes: RebalanceWishes, say: Say) -> bool:
    """Spread replicas and preferred leaders evenly; tell whether all that was written has moved.

    Raises:  CommandFailed if the API server refuses a write
    """
    told: set[str] = set()
    plans: list[RebalancePlan] = []

    def decide(found: ClusterFound) -> list[Object]:
        plan = planned(found, brokers_wanted(assignments))
        plans[:] = [plan]
        told.update(plan.wanted)
        return plan.objects

    def look() -> list[str]:
        found = assignments.change(decide)
        return left(found, told, plans[-1])

    if wishes.is_dry_run:
        decide(assignments.read())
        _show_plan(plans[-1], say)
        say("nothing is written")
        return True
    assignments.change(decide)
    _show_plan(plans[-1], say)
    if not told:
        return True
    if not wishes.wait_seconds:
        say(HOW_TO_GO_ON)
        return True
    try:
        rest = wait(look, wishes.wait_seconds)
    except KeyboardInterrupt:
        say(f"the moves go on. {HOW_TO_GO_ON}")
        raise
    if rest:
        say(f"not done within {wishes.wait_seconds} s; the moves go on. {HOW_TO_GO_ON}")
        return False
    say(verdict(plans[-1]))
    return True


def brokers_wanted(assignments: Assignments) -> int:
    """Return how many brokers the cluster shall have; those of higher ids go."""
    found = assignments.kubernetes.get("brokercluster", assignments.cluster)
    return int(found["spec"]["replicas"])


def planned(found: ClusterFound, size: int) -> RebalancePlan:
    """Return the moves that even numbers ask for.

    A partition that moves already stays as it is wanted, and one without a leader stays where its
    records are: both wait for a later look.
    """
    unfit = {one: why for one in sorted(found.brokers) if (why := takes_nothing(found, one, size))}
    assigned = {label: assigned_of(each) for label, each in found.partitions.items()}
    moves = even_moves(
        list(assigned.values()),
        movable=[assigned[label] for label, each in found.partitions.items() if may_move(each)],
        brokers=[BrokerId(one) for one in found.brokers],
        fit=[BrokerId(one) for one in found.brokers if one not in unfit],
        racks=found.racks,
    )
    wanted = {label: tuple(moves[each]) for label, each in assigned.items() if each in moves}
    return RebalancePlan(found=found, unfit=unfit, wanted=wanted)


def may_move(each: Assignment) -> bool:
    """Tell whether a partition is at rest and has a leader to copy from."""
    return bool(each.present) and not each.moves and each.leader != -1


def takes_nothing(found: ClusterFound, broker: int, size: int) -> str:
    """Return why a broker gets no replica and no preferred leadership, "" if it may."""
    if broker >= size:
        return f"broker {broker} goes: spec.replicas is {size}"
    there = found.partitions.values()
    if any(broker in each.present for each in there) and not any(
        broker in each.wanted for each in there
    ):
        return f"broker {broker} is being emptied"
    return found.broker_amiss(broker)


def left(found: ClusterFound, told: Iterable[str], plan: RebalancePlan) -> list[str]:
    """Return a line for each partition that was told to move and has not."""
    there = [found.partitions[label] for label in sorted(told) if label in found.partitions]
    return [progress_line(each, found) for each in there if each.moves or each.label in plan.wanted]


def verdict(plan: RebalancePlan) -> str:
    """Return whether what a plan ends with is even, and if not, why."""
    fit = [one for one in plan.found.brokers if one not in plan.unfit]
    held = Counter(one for replicas in plan.after for one in replicas)
    firsts = Counter(replicas[0] for replicas in plan.after)
    for has, what in ((held, "replicas"), (firsts, "preferred leaders")):
        counts = [has[one] for one in fit]
        if counts and max(counts) - min(counts) >= UNEVEN:
            return (
                f"brokers have between {min(counts)} and {max(counts)} {what}: nothing more can "
                "move without fewer racks of a partition, or before partitions that move or have "
                "no leader are at rest"
            )
    return "the brokers that may take replicas are even: nothing is left to move"


def broker_rows(plan: RebalancePlan) -> list[Row]:
    """Return a line for each broker, with what it has and will have."""
    before = [each.wanted for each in plan.found.partitions.values()]
    counted = [
        Counter(one for replicas in side for one in replicas) for side in (before, plan.after)
    ]
    firsts = [Counter(replicas[0] for replicas in side) for side in (before, plan.after)]
    return [
        (str(one), *(str(has[one]) for has in (*counted, *firsts)), plan.unfit.get(one, "-"))
        for one in sorted(plan.found.brokers)
    ]


def move_row(each: Assignment, wanted: Replicas) -> Row:
    """Return the line of a partition that moves."""
    gives = sorted(set(each.wanted) - set(wanted))
    takes = sorted(set(wanted) - set(each.wanted))
    moves = f"{ids(gives)} to {ids(takes)}" if takes else ANOTHER_ORDER
    return each.label, ids(each.wanted), ids(wanted), moves


def _show_plan(plan: RebalancePlan, say: Say) -> None:
    show(BROKER_COLUMNS, broker_rows(plan), left=BROKER_COLUMNS[-1:])
    if not plan.wanted:
        say(verdict(plan))
        return
    rows = [move_row(plan.found.partitions[label], it) for label, it in plan.wanted.items()]
    show(MOVE_COLUMNS, rows, left=MOVE_COLUMNS)
    orders = [row[-1] for row in rows].count(ANOTHER_ORDER)
    say(f"partitions that move: {len(rows) - orders}, that only prefer another leader: {orders}")
