"""Values for tests of the controller session: one broker, two holders of the Lease, replicas."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.effects import DialHolder, Effect, FindHolder
from strandline.controller_session.events import Event, HolderLookedUp, HolderObserved
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.controller_session.timing import ControllerSessionTiming
from strandline.core.effects import ProposeIsr
from strandline.core.views import PartitionView, RoleName
from strandline.model import (
    GRPC_LISTENER,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    EpochStart,
    IsrEntry,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    Registration,
    TopicId,
    TopicPartition,
)

ME = BrokerId(1)
EPOCH = BrokerEpoch(9)
CONTROLLER_EPOCH = ControllerEpoch(12)
TP = TopicPartition(topic_id=TopicId(str(uuid.UUID(int=5))), partition=3)
OTHER_TP = TopicPartition(topic_id=TP.topic_id, partition=4)
SIGNED = "broker-2/uid/a"
"""The holder identity with which the registered process of broker 2 signs the Lease."""
SIGNED_BY_3 = "broker-3/uid/b"
TIMING = ControllerSessionTiming(
    heartbeat_interval_ms=500,
    hosted_report_interval_ms=1_200,
    redial_ms=50,
    redial_max_ms=150,
    probe_interval_ms=30,
    probe_deadline_ms=400,
    refused_probes_dead=3,
    shutdown_response_max_ms=3_000,
    shutdown_retry_ms=100,
    shutdown_stalled_ms=2_000,
)
ENDPOINT = Endpoint(listener=GRPC_LISTENER, host="10.0.0.2", port=9090)
KAFKA_ENDPOINT = Endpoint(listener="INTERNAL", host="10.0.0.2", port=9092)


def registration(
    broker_id: int = 2, incarnation: str = "uid/a", endpoints: tuple[Endpoint, ...] = (ENDPOINT,)
) -> Registration:
    """Return a broker's registration."""
    return Registration(
        broker_id=BrokerId(broker_id),
        broker_epoch=EPOCH,
        clean_since_epoch=BrokerEpoch(3),
        incarnation=incarnation,
        endpoints=endpoints,
        log_dir_id="",
        boot_id="",
    )


def view(tp: TopicPartition = TP, role: RoleName = RoleName.FOLLOWER) -> PartitionView:
    """Return the view of a replica, with values that no test reads."""
    return PartitionView(
        tp=tp,
        topic_name="orders",
        role=role,
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(4),
        partition_epoch=PartitionEpoch(7),
        accepted_leader_epoch=LeaderEpoch(4),
        accepted_partition_epoch=PartitionEpoch(7),
        term=LeaderTerm(leader_epoch=LeaderEpoch(3), led_by=BrokerId(2), led_as=BrokerEpoch(6)),
        replicas=(ME, BrokerId(2)),
        original_replicas=(),
        isr=(),
        eligible_leaders=(),
        maximal_isr=frozenset(),
        min_insync_replicas=1,
        log_start_offset=0,
        high_watermark=0,
        log_end_offset=99,
        epochs=(EpochStart(leader_epoch=LeaderEpoch(3), start_offset=0),),
        followers=(),
    )


def proposal(tp: TopicPartition = TP, request_id: int = 1) -> ProposeIsr:
    """Return an ISR proposal of a leader."""
    return ProposeIsr(
        request_id=request_id,
        tp=tp,
        leader_epoch=LeaderEpoch(4),
        partition_epoch=PartitionEpoch(7),
        isr=(IsrEntry(broker_id=ME, broker_epoch=EPOCH),),
    )


@dataclass(slots=True)
class FixedReplicas:
    """Replicas of this broker; a test changes them."""

    shown: tuple[PartitionView, ...] = ()
    controller_epoch: ControllerEpoch = field(default=CONTROLLER_EPOCH)

    def views(self) -> tuple[PartitionView, ...]:
        return self.shown

    def view(self, tp: TopicPartition) -> PartitionView | None:
        return next((each for each in self.shown if each.tp == tp), None)

    def lead(self) -> None:
        """Lead one partition from now on."""
        self.shown = (view(role=RoleName.LEADER),)

    def follow(self) -> None:
        """Follow in one partition from now on."""
        self.shown = (view(),)


class Session:
    """The machine of broker 1, its replicas, and the time of its steps."""

    def __init__(self) -> None:
        self.replicas = FixedReplicas()
        self.metadata = MetadataCache("demo", now_ms=lambda: 0)
        self.now_ms = 0
        self.machine = ControllerSession(
            registration(ME, "uid/me"),
            replicas=self.replicas,
            metadata=self.metadata,
            timing=TIMING,
        )

    def step(self, event: Event, at_ms: int | None = None) -> list[Effect]:
        """Step the machine, at the time of the last step or at `at_ms`."""
        self.now_ms = self.now_ms if at_ms is None else at_ms
        return self.machine.step(event, self.now_ms)

    def open(self, signed: str = SIGNED) -> int:
        """Let the machine observe, look up and dial broker 2; return the session's id."""
        (find,) = self.step(HolderObserved(holder_identity=signed))
        assert isinstance(find, FindHolder)
        dial, _ = self.step(
            HolderLookedUp(lookup_id=find.lookup_id, registration=registration(find.broker_id))
        )
        assert isinstance(dial, DialHolder)
        return dial.session_id
