"""Which broker leads when no replica has all acknowledged records, and the topic allows that.

A pure function; `elections` calls it.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.model import BrokerId, PartitionState

from .broker_entry import Awaited, BrokerEntry, Live
from .election_input import most_complete
from .events import HostedReplica


def choose_unclean_leader(
    state: PartitionState,
    brokers: Mapping[BrokerId, BrokerEntry],
    hosted: Mapping[BrokerId, HostedReplica],
) -> Live | None:
    """Return the broker with most data by (last epoch, log end offset); other data is lost.

    Members of the last ISR go before other replicas; one that is being added, and never was in the
    ISR, may have next to nothing, and is not chosen. None while an awaited broker may have more.
    """
    for pool in (state.isr_ids, state.original_replicas):
        found = [brokers.get(b) for b in state.replicas if b in pool]
        usable = [each for each in found if isinstance(each, Live) and not each.shutting_down]
        if any(isinstance(each, Awaited) for each in usable):
            return None
        by_id = {each.broker_id: each for each in usable}
        if known := {b: replica for b, replica in hosted.items() if b in by_id}:
            return by_id[most_complete(known)]
        if usable:
            return usable[0]
    return None
