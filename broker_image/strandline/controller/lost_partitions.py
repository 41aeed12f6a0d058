"""Whether a partition whose object was lost may begin anew: only if no broker has data of it.

Pure functions over the brokers in session; `elections` calls them. What a broker reported before
the controller saw the object proves nothing: the broker may have got data since (ADR 0032).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from strandline.model import BrokerEpoch, BrokerId, Recovery, StoredPartition

from .broker_entry import BrokerEntry, InSession, RegisteredBroker

FIRST_EPOCH: Final = BrokerEpoch(1)
"""The epoch of a broker's first start; a broker that never lost data is clean since then."""


def asked_about_lost(
    stored: StoredPartition, brokers: Mapping[BrokerId, BrokerEntry]
) -> list[BrokerEntry | None]:
    """Return the brokers that may have data of a partition whose object is new, None for unknown.

    Every registered broker may: the partition may have moved before (ADR 0057). A person may give
    up those that the spec does not assign; the cluster has done so with those that it removed.
    """
    registered = (
        each
        for each, entry in brokers.items()
        if isinstance(entry, RegisteredBroker) and not entry.is_gone
    )
    others = frozenset(registered) - stored.rebuild_without
    return [brokers.get(each) for each in sorted(others.union(stored.assigned))]


def have_all_reported(asked: Sequence[BrokerEntry | None], *, first_seen_ms: int) -> bool:
    """Tell whether each broker is in session, and said since then what it has on disk."""
    return all(
        isinstance(broker, InSession)
        and not broker.shutting_down
        and broker.reported_ms >= first_seen_ms
        for broker in asked
    )


def recovery_of(present: Sequence[InSession]) -> Recovery:
    """Return UNCLEAN if one of these brokers once lost data: perhaps that of this partition."""
    lost_data = any(each.registration.clean_since_epoch > FIRST_EPOCH for each in present)
    return Recovery.UNCLEAN if lost_data else Recovery.CLEAN
