"""Which broker leads when no replica has all acknowledged records, and the topic allows that.

A pure function; `elections` calls it.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.model import BrokerId, PartitionState

from .broker_entry import Awaited, BrokerEntry, Live
from .events import HostedReplica


def choose_unclean_leader(
    state: PartitionState,
    brokers: Mapping[BrokerId, BrokerEntry],
    hosted: Mapping[BrokerId, HostedReplica],
) -> Live | None:
    """Return the broker with most data by (last epoch, log end offset); other data is lost.

    Members of the last ISR go before other replicas. None while an awaited broker may have more.
    """
    for pool in (state.isr_ids, state.replicas):
        found = [brokers.get(b) for b in state.replicas if b in pool]
        usable = [each for each in found if isinstance(each, Live) and not each.shutting_down]
        if any(isinstance(each, Awaited) for each in usable):
            return None
        if usable:
            return max(usable, key=lambda each: _log_end(hosted.get(each.broker_id)))
    return None


def _log_end(replica: HostedReplica | None) -> tuple[int, int]:
    return (-1, -1) if replica is None else (replica.last_epoch, replica.log_end_offset)
