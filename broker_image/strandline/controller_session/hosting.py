"""What the session reads of this broker's replicas; it never changes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from strandline.controller.events import HostedReplica
from strandline.core.effects import ReplyLeaderAndIsr
from strandline.core.views import PartitionView, RoleName
from strandline.errors import ErrorCode
from strandline.model import (
    NO_LEADER,
    ControllerEpoch,
    Registration,
    TopicPartition,
    TrashedReplica,
)

from .messages import Heartbeat, Hello

_TOO_LOW = {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
}
"""How a broker refuses a state that is older than the one it has."""


class HostedReplicas(Protocol):
    """The replicas of this broker, as far as the session reads them."""

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch that this broker accepted."""
        ...

    def view(self, tp: TopicPartition) -> PartitionView | None:
        """Return a view of a replica, None if this broker does not host it."""
        ...

    def views(self) -> tuple[PartitionView, ...]:
        """Return views of all replicas, ascending."""
        ...


def hosted_by(replicas: HostedReplicas) -> tuple[HostedReplica, ...]:
    """Return this broker's replicas as hellos and hosted reports carry them."""
    return tuple(
        HostedReplica(
            tp=view.tp,
            topic_name=view.topic_name,
            leader=view.leader,
            leader_epoch=view.leader_epoch,
            partition_epoch=view.partition_epoch,
            accepted_leader_epoch=view.accepted_leader_epoch,
            accepted_partition_epoch=view.accepted_partition_epoch,
            term_epoch=view.term.leader_epoch,
            led_by=view.term.led_by,
            led_as=view.term.led_as,
            log_start_offset=view.log_start_offset,
            log_end_offset=view.log_end_offset,
            last_epoch=view.last_epoch,
        )
        for view in replicas.views()
    )


def leads_replicated(replicas: HostedReplicas) -> bool:
    """Tell whether this broker leads a partition that has other replicas."""
    return any(view.role is RoleName.LEADER and len(view.replicas) > 1 for view in replicas.views())


def waits_for_rebuild(replicas: HostedReplicas, response: ReplyLeaderAndIsr) -> bool:
    """Tell whether a command left a partition without leader, or named epochs that are too low.

    The controller may then wait for this broker's next hosted report (ADR 0004).
    """
    for tp, error in response.partitions:
        if error in _TOO_LOW:
            return True
        view = replicas.view(tp)
        if view is not None and view.leader == NO_LEADER:
            return True
    return False


class BrokerReport:
    """What this broker tells of itself: its replicas, its trash, and whether its volume is full."""

    def __init__(
        self,
        registration: Registration,
        *,
        replicas: HostedReplicas,
        trashed: tuple[TrashedReplica, ...],
    ) -> None:
        self._registration = registration
        self._replicas = replicas
        self._trashed = trashed
        self.is_full = False

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch that this broker accepted."""
        return self._replicas.controller_epoch

    def note_volume(self, *, is_full: bool) -> None:
        """Say from now on whether the volume has no room."""
        self.is_full = is_full

    def note_trash(self, trashed: tuple[TrashedReplica, ...]) -> None:
        """Say from now on what the trash holds."""
        self._trashed = trashed

    def hello(self) -> Hello:
        """Return the first message of a session."""
        own = self._registration
        return Hello(
            broker_id=own.broker_id,
            broker_epoch=own.broker_epoch,
            clean_since_epoch=own.clean_since_epoch,
            incarnation=own.incarnation,
            highest_controller_epoch=self.controller_epoch,
            hosted=hosted_by(self._replicas),
            trashed=self._trashed,
        )

    def heartbeat(self) -> Heartbeat:
        """Return a heartbeat without a hosted report."""
        return Heartbeat(
            broker_epoch=self._registration.broker_epoch, hosted=None, is_full=self.is_full
        )

    def full_heartbeat(self) -> Heartbeat:
        """Return a heartbeat with a hosted report."""
        hosted = hosted_by(self._replicas)
        return replace(self.heartbeat(), hosted=hosted, trashed=self._trashed)
