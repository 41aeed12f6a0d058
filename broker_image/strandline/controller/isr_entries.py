"""What an ISR or ELR entry is worth, by what the controller knows of its broker (ADR 0002).

Pure; an entry of a broker that is neither known live nor known dead keeps its worth.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.model import BrokerId, IsrEntry, PartitionState

from .broker_entry import BrokerEntry, Dead, Live, WithoutSession, registration_of


def lost_data(entry: IsrEntry, brokers: Mapping[BrokerId, BrokerEntry]) -> bool:
    """Tell whether a broker's log is known to have lost records since this entry.

    An entry above the registered epoch proves no loss: the controller's view is old.
    """
    registration = registration_of(brokers.get(entry.broker_id))
    return registration is not None and entry.broker_epoch < registration.clean_since_epoch


def entries_kept(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry], leader: BrokerId
) -> tuple[IsrEntry, ...]:
    """Return the ISR without members known dead, known to have lost data, or leaving."""
    kept = []
    for entry in state.isr:
        broker = brokers.get(entry.broker_id)
        dead = isinstance(broker, Dead) and entry.broker_epoch <= broker.broker_epoch
        leaving = isinstance(broker, Live) and broker.shutting_down and entry.broker_id != leader
        if isinstance(broker, WithoutSession) and entry.broker_id == state.leader:
            # It leads until it learns of the next leader, and fetches nothing.
            leaving = leaving or state.leader != leader
        if not dead and not leaving and not lost_data(entry, brokers):
            kept.append(entry)
    return tuple(kept)


def entries_above_registration(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]
) -> list[IsrEntry]:
    """Return the entries above the registered epoch: the controller's view of them is old."""
    known = (entry for entry in state.candidates if entry.broker_id in brokers)
    return [each for each in known if each.broker_epoch > brokers[each.broker_id].broker_epoch]


def is_candidate(broker_id: BrokerId, state: PartitionState) -> bool:
    """Tell whether a broker is in the ISR or eligible: it may be elected, whatever its entry."""
    return any(entry.broker_id == broker_id for entry in state.candidates)
