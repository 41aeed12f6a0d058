"""Everything that can happen to a controller, active or candidate.

The shells (`kube`, `rpc`, `runtime`) and the simulator make events; `Controller.step` alone
consumes them. Times are ms of the driver's monotonic clock. `store_events.py` holds the part that
comes from Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strandline.errors import ErrorCode
from strandline.model import (
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
    TrashedReplica,
)

from . import store_events


class ProbeVerdict(Enum):
    """What one probe of a broker's gRPC listener showed."""

    REFUSED = "refused"
    """The connection was refused: no process listens there."""
    OTHER_INCARNATION = "other_incarnation"
    """Another process than the probed one responded."""
    ANSWERED = "answered"
    """The probed process responded."""
    NO_ANSWER = "no_answer"
    """Silence up to the deadline: a stopped process still accepts TCP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedReplica:
    """A replica on a broker's disk; leader and epochs are of the last state the broker applied.

    The accepted epochs are the highest in the state file, also before this process applied them.
    last_epoch is the leader epoch of the last batch, also if that is deleted; NO_EPOCH if the log
    never had one, or does not know it. term_epoch is the epoch of the last state with a leader that
    the broker accepted, led_by that leader, and led_as its broker epoch in the ISR of that state.
    """

    tp: TopicPartition
    topic_name: str
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    accepted_leader_epoch: LeaderEpoch
    accepted_partition_epoch: PartitionEpoch
    last_epoch: LeaderEpoch
    log_start_offset: int
    log_end_offset: int
    term_epoch: LeaderEpoch = NO_EPOCH
    led_by: BrokerId = NO_LEADER
    led_as: BrokerEpoch = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """What all events of a session have: its id, unique in this process, and the broker."""

    session_id: int
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(SessionEvent):
    """A broker said hello on a new stream."""

    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    incarnation: str
    hosted: tuple[HostedReplica, ...]
    trashed: tuple[TrashedReplica, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReceived(SessionEvent):
    """A broker is alive; is_full: its volume has no room for records of clients."""

    broker_epoch: BrokerEpoch
    is_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBroken(SessionEvent):
    """The stream of a session ended without `CloseSession`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResponseReceived:
    """Response to `ProbeBroker`."""

    request_id: int
    broker_id: BrokerId
    verdict: ProbeVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolderProbed:
    """Response to `ProbeLeaseHolder`."""

    request_id: int
    verdict: ProbeVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChangeRequested(SessionEvent):
    """AlterPartition of one partition; then `ReplyAlterPartition` with the same ids."""

    request_id: int
    broker_epoch: BrokerEpoch
    tp: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRequested(SessionEvent):
    """A broker is about to stop; then `ReplyControlledShutdown` when its leaders have moved."""

    request_id: int
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedReported(SessionEvent):
    """What a broker has on disk and in its trash, sent every 30 s.

    The controller compares it with what it sent.
    """

    hosted: tuple[HostedReplica, ...]
    trashed: tuple[TrashedReplica, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerResponseReceived(SessionEvent):
    """Response to a command; controller_epoch is the highest that the broker has seen."""

    request_id: int
    error: ErrorCode
    controller_epoch: ControllerEpoch
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """The process stops: resign and release the Lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time passed; sent at or after `Controller.next_wakeup_ms`."""


BrokerEvent = (
    HeartbeatReceived
    | IsrChangeRequested
    | BrokerResponseReceived
    | ProbeResponseReceived
    | SessionOpened
    | SessionBroken
    | ShutdownRequested
    | HostedReported
    | store_events.BrokerObserved
    | store_events.BrokerRead
)
"""What an active controller learns of brokers: their messages, probes and Broker objects."""

ElectionEvent = (
    store_events.LeaseObserved
    | store_events.LeaseResponseReceived
    | store_events.HolderDied
    | LeaseHolderProbed
    | store_events.EpochFloorRead
    | store_events.ControllerRecordResponseReceived
    | store_events.ControllerEpochSeen
    | StopRequested
)
"""What the election of the controller learns; `ClusterLoaded` ends it."""

ControllerEvent = Ticked | BrokerEvent | store_events.ObjectEvent | ElectionEvent
