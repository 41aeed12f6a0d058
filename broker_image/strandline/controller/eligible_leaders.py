"""Which brokers outside the ISR may be elected without loss: the eligible leader replicas (ELR).

Pure; every status that the controller writes takes its ELR from here. Under min ISR a leader's
high watermark stands still. So a member that leaves an ISR which then has fewer than min ISR
members keeps everything that is committed, as long as the ISR stays below and its log loses
nothing (ADR 0030).
Source: KIP-966; Kafka PartitionChangeBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.model import BrokerId, IsrEntry, PartitionState

from .broker_entry import BrokerEntry
from .isr_entries import lost_data


def eligible_leaders(
    state: PartitionState,
    isr: tuple[IsrEntry, ...],
    min_insync_replicas: int,
    brokers: Mapping[BrokerId, BrokerEntry],
) -> tuple[IsrEntry, ...]:
    """Return the ELR beside the next ISR: the candidates of the former state that are not in it.

    At min ISR there is none, because the high watermark may then pass every broker outside.
    Members that were eligible before stand first; entries known to stand for lost data are
    dropped.
    """
    if len(isr) >= min_insync_replicas:
        return ()
    members = {entry.broker_id for entry in isr}
    return tuple(
        entry
        for entry in state.eligible_leaders + state.isr
        if entry.broker_id not in members and not lost_data(entry, brokers)
    )
