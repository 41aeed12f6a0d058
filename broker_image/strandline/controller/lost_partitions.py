"""Whether a partition whose object was lost may begin anew: only if no broker has data of it.

Pure functions over the brokers in session; `elections` calls them. What a broker reported before
the controller saw the object proves nothing: the broker may have got data since (ADR 0035).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.model import BrokerEpoch, Recovery

from .broker_entry import InSession

FIRST_EPOCH: Final = BrokerEpoch(1)
"""The epoch of a broker's first start; a broker that never lost data is clean since then."""


def have_all_reported(
    present: Sequence[InSession], *, assigned_count: int, first_seen_ms: int
) -> bool:
    """Tell whether each assigned broker is present, and said since then what it has on disk."""
    return len(present) == assigned_count and all(
        broker.reported_ms >= first_seen_ms for broker in present
    )


def recovery_of(present: Sequence[InSession]) -> Recovery:
    """Return UNCLEAN if one of these brokers once lost data: perhaps that of this partition."""
    lost_data = any(each.registration.clean_since_epoch > FIRST_EPOCH for each in present)
    return Recovery.UNCLEAN if lost_data else Recovery.CLEAN
