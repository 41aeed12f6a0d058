"""Whose an object is that bears a name we want: decided once, before anything is touched.

    OURS          our owner controls it ----------------> applied when it differs
    ORPHAN        our label, and no controller ---------> adopted by applying it
    LEAVING       being deleted ------------------------> left alone, created anew when gone
    PREDECESSORS  a deleted owner of our name had it ---> waited for
    FOREIGN       anything else ------------------------> refused, never touched

Pure; called by `observe` for each object of a snapshot.
"""

from __future__ import annotations

from .observed import FoundObject, FoundPartition, ObjectRef, Ownership


def ownership_of(found: FoundObject, cluster: ObjectRef) -> Ownership:
    """Return whose an object is that bears the name of a part of a cluster."""
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
    """Return whose a Partition is that bears the name of a topic's: its topic id says it.

    Partitions are the operator's alone; one of another id was made for an earlier topic.
    """
    return Ownership.OURS if found.stored.tp.topic_id == topic.uid else Ownership.PREDECESSORS
