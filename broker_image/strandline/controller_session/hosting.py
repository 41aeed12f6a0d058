"""What the session reads of this broker's replicas; it never changes them."""

from __future__ import annotations

from typing import Protocol

from strandline.controller.events import HostedReplica
from strandline.core.views import PartitionView, RoleName
from strandline.model import NO_EPOCH, ControllerEpoch


class HostedReplicas(Protocol):
    """The replicas of this broker, as far as the session reads them."""

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch that this broker accepted."""
        ...

    def views(self) -> tuple[PartitionView, ...]:
        """Return views of all replicas, ascending."""
        ...


def hosted_by(replicas: HostedReplicas) -> tuple[HostedReplica, ...]:
    """Return this broker's replicas as hellos and hosted reports carry them."""
    return tuple(
        HostedReplica(
            tp=view.tp,
            leader_epoch=view.leader_epoch,
            partition_epoch=view.partition_epoch,
            log_end_offset=view.log_end_offset,
            last_epoch=view.epochs[-1].leader_epoch if view.epochs else NO_EPOCH,
        )
        for view in replicas.views()
    )


def leads_any(replicas: HostedReplicas) -> bool:
    """Tell whether this broker leads a partition."""
    return any(view.role is RoleName.LEADER for view in replicas.views())
