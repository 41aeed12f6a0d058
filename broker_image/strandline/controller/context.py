"""What the parts of an active controller share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.model import ControllerEpoch, HolderIdentity

from .brokers import Brokers
from .partition_table import PartitionTable
from .timing import ControllerTiming
from .topics import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """The objects that one controller epoch decides about, and what each decision needs."""

    identity: HolderIdentity | None
    epoch: ControllerEpoch
    timing: ControllerTiming
    new_request_id: Callable[[], int]
    brokers: Brokers
    table: PartitionTable
    topics: Topics
