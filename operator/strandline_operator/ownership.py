"""Who owns a found object whose name the operator wants for an object of its own.

    OURS          our cluster controls it ----------------------> applied when it differs
    ORPHAN        it has our label and no controller -----------> adopted by applying it
    LEAVING       it is being deleted --------------------------> left alone, created anew when gone
    PREDECESSORS  an earlier cluster of our name controls it ---> waited for
    FOREIGN       anything else --------------------------------> refused, never touched

Pure; called by `observe` for each object of a snapshot.
"""

from __future__ import annotations

from .observed import FoundObject, FoundPartition, ObjectRef, Ownership


def ownership_of(found: FoundObject, cluster: ObjectRef) -> Ownership:
    """Return who owns an object that has the name of a part of this cluster."""
    if found.is_terminating:
        return Ownership.LEAVING
    controller = found.controller
    if controller is None:
        return Ownership.ORPHAN if found.cluster == cluster.name else Ownership.FOREIGN
    if controller.uid == cluster.uid:
        return Ownership.OURS
    if (controller.kind, controller.name) == (cluster.kind.kind, cluster.name):
        return Ownership.PREDECESSORS
    return Ownership.FOREIGN


def partition_ownership_of(found: FoundPartition, topic: ObjectRef) -> Ownership:
    """Return who owns a Partition that has the name of one of this topic's: its topic id tells.

    The operator alone makes Partitions; one with another id was made for an earlier topic.
    """
    return Ownership.OURS if found.stored.tp.topic_id == topic.uid else Ownership.PREDECESSORS
