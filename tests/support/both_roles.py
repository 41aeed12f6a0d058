"""When a frozen process that was controller and leader is replaced in both roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.eventually import eventually

AIM_SECONDS = 3.5
"""With the timing `demo`; docs/adr/0028-silence-and-missing-sessions.md."""
MILLISECOND = timedelta(milliseconds=1)
"""The resolution of the time of a log line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BothRoles:
    """Moments of one fault: frozen by this process's wall clock, the others by log lines.

    leader_elected is the controller's line, and leads that of the partition's new leader.
    """

    frozen: datetime
    controller_elected: datetime
    leader_elected: datetime
    leads: datetime

    @property
    def total_seconds(self) -> float:
        """From the freeze until both roles were filled."""
        return (max(self.controller_elected, self.leads) - self.frozen).total_seconds()

    @property
    def in_order(self) -> bool:
        """Whether the controller came after the freeze, and the leader by its decision."""
        after_freeze = self.controller_elected >= self.frozen - MILLISECOND
        return after_freeze and self.controller_elected <= self.leader_elected <= self.leads

    def __str__(self) -> str:
        """Tell of each moment in seconds after the freeze."""
        moments = {
            "controller elected": self.controller_elected,
            "leader elected": self.leader_elected,
            "leader leads": self.leads,
        }
        told = ", ".join(
            f"{what} {(at - self.frozen).total_seconds():.3f} s" for what, at in moments.items()
        )
        return f"both roles filled {self.total_seconds:.3f} s after the freeze ({told})"


def freeze_both_roles(group: BrokerGroup, topic: str) -> tuple[int, BothRoles]:
    """Freeze the controller, which leads the partition of its own number; wait for both roles.

    The frozen broker is returned, with the moments; it stays frozen. The machine has one clock.
    """
    old = group.controller()
    number = old
    frozen = datetime.now(UTC)
    group.brokers[old].freeze()
    leader = group.wait_leader(topic, number, other_than=old)
    controller = group.controller()

    def is_of_partition(line: dict[str, Any]) -> bool:
        is_numbered = str(line["partition"]).endswith(f"-{number}")
        return is_numbered and str(line["topic_name"]) == topic

    def moments() -> BothRoles:
        return BothRoles(
            frozen=frozen,
            controller_elected=_first(group, controller, "controller elected", frozen),
            leader_elected=_first(group, controller, "leader elected", frozen, is_of_partition),
            leads=_first(group, leader, "became leader", frozen, is_of_partition),
        )

    return old, eventually(moments, FAULT_LIMIT_MS, f"both roles of broker {old}")


def _first(
    group: BrokerGroup,
    broker: int,
    message: str,
    since: datetime,
    fits: Callable[[dict[str, Any]], bool] = lambda _line: True,
) -> datetime:
    """Return the time of a broker's first such line of the fault; AssertionError without one."""
    at = [
        moment
        for line in group.brokers[broker].lines()
        if line["message"] == message and fits(line)
        for moment in [datetime.fromisoformat(line["time"])]
        if moment >= since - MILLISECOND
    ]
    assert at, f"no {message!r} of broker {broker}"
    return at[0]
