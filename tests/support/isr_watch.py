"""Every ISR that a controller committed for a topic while a block ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline_cli.kubectl import Kubernetes
from strandline_cli.kubectl_watch import LinesWatched

# Not a tab: kubectl prints tabs as aligned columns, so that an empty field would be lost.
BETWEEN: Final = "|"
TEMPLATE: Final = BETWEEN.join(
    (
        "{.spec.topicName}",
        "{.spec.partition}",
        "{.status.minInsyncReplicas}",
        r'{.status.isr}{"\n"}',
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrSeen:
    """A committed ISR of a partition, and the least number of members that it should have."""

    partition: int
    minimum: int
    isr: tuple[int, ...]


def isr_of(line: str, topic: str) -> IsrSeen | None:
    """Return the ISR in a line of the watch, None if it is of another topic or without a status."""
    parts = line.strip().split(BETWEEN)
    if len(parts) != TEMPLATE.count(BETWEEN) + 1 or parts[0] != topic or not parts[2]:
        return None
    members = tuple(int(each) for each in parts[3].strip("[]").replace(",", " ").split())
    return IsrSeen(partition=int(parts[1]), minimum=int(parts[2]), isr=members)


class IsrWatch(LinesWatched[IsrSeen]):
    """Every ISR committed for a topic until the end of the block.

    A watch gets every change in order, so a short loss that a poll would miss is seen.
    """

    def __init__(self, kubernetes: Kubernetes, topic: str) -> None:
        watch = ("--watch", "-o", f"jsonpath={TEMPLATE}")
        super().__init__(kubernetes, "partitions", *watch, parsed=lambda line: isr_of(line, topic))
