"""Who owns a found object whose name the operator wants for an object of its own.

    OURS          our cluster controls it, or it is a Broker ---> applied when it differs
    ORPHAN        no controller; our label, or we applied it ---> applied when it differs
    LEAVING       it is being deleted --------------------------> left alone, created anew when gone
    PREDECESSORS  an earlier cluster of our name controls it ---> waited for
    FOREIGN       anything else --------------------------------> refused, never touched

A cluster with topics controls nothing, and no cluster controls Brokers (ADR 0033).

Pure; called by `observe` for each object of a snapshot.
"""

from __future__ import annotations

from . import kinds
from .observed import DesiredTopic, FoundObject, FoundPartition, ObjectRef, Ownership


def may_be_part(name: str, cluster: str) -> bool:
    """Tell whether a part of the cluster could have this name."""
    return name == cluster or name.startswith(f"{cluster}-")


def ownership_of(found: FoundObject, cluster: ObjectRef) -> Ownership:
    """Return who owns an object that has the name of a part of this cluster."""
    if found.is_terminating:
        return Ownership.LEAVING
    controller = found.controller
    if controller is None:
        is_known = found.cluster == cluster.name or (found.is_applied and not found.cluster)
        return Ownership.ORPHAN if is_known else Ownership.FOREIGN
    if controller.uid == cluster.uid:
        return Ownership.OURS
    if (controller.kind, controller.name) == (cluster.kind.kind, cluster.name):
        # A registration of an earlier cluster is taken over before it is deleted as a dependent.
        is_broker = found.ref.kind is kinds.BROKER
        return Ownership.OURS if is_broker else Ownership.PREDECESSORS
    return Ownership.FOREIGN


def partition_ownership_of(found: FoundPartition, topic: DesiredTopic) -> Ownership:
    """Return who owns a Partition: its topic id tells, and its owner for a topic that adopts.

    The operator alone makes Partitions; one with another id was made for an earlier topic. One of
    an adopted id may be the earlier topic's, too: its status speaks of logs that were deleted.
    """
    has_id = found.stored.tp.topic_id == topic.topic_id
    is_owned = found.controller is not None and found.controller.uid == topic.ref.uid
    return Ownership.OURS if has_id and (is_owned or not topic.adopts) else Ownership.PREDECESSORS
