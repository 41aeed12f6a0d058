"""The stored objects and the rules under which they change, as the API server applies them.

Each write is a compare-and-swap on the resourceVersion. What the CRDs forbid is refused
here, too: epochs never fall, another leader needs a higher leader epoch, a changed status a
higher partition epoch. Knows nothing of time; `api` decides when a call arrives.
"""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.rebuild import REPLICAS_MAX
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerEpoch,
    BrokerId,
    ClusterRecord,
    ControllerEpoch,
    ControllerRecord,
    LeaseRecord,
    PartitionState,
    Registration,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
    TopicSettings,
)

from .plan import Plan

TOPIC = TopicId("topic")


class SimulatedStore:
    """The objects of one cluster; version rises with every write, a refused put returns None."""

    def __init__(self, plan: Plan) -> None:
        self.version = 0
        self.lease = LeaseRecord(
            name="c-controller",
            resource_version=self._next_version(),
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time="",
            renew_time="",
            lease_transitions=0,
            controller_epoch=ControllerEpoch(0),
        )
        self.record = ControllerRecord(
            resource_version=self._next_version(),
            holder_identity="",
            broker_id=NO_LEADER,
            controller_epoch=ControllerEpoch(0),
        )
        self._cluster = ClusterRecord(
            resource_version="", uid="c", is_deleting=False, controller_epoch=ControllerEpoch(0)
        )
        self.topic = StoredTopic(
            name="topic",
            resource_version=self._next_version(),
            topic_id=TOPIC,
            topic_name="topic",
            partition_count=len(plan.assignments),
            min_insync_replicas=plan.min_insync_replicas,
            unclean_leader_election=False,
            settings=TopicSettings(flush_messages=1) if plan.flushes else TopicSettings(),
        )
        self.brokers = {
            BrokerId(number): StoredBroker(
                name=f"c-{number}",
                resource_version=self._next_version(),
                broker_id=BrokerId(number),
                registration=None,
            )
            for number in range(plan.brokers)
        }
        self.partitions = {
            f"topic-{number}": StoredPartition(
                name=f"topic-{number}",
                resource_version=self._next_version(),
                tp=TopicPartition(topic_id=TOPIC, partition=number),
                topic_name="topic",
                assigned=tuple(map(BrokerId, assigned)),
                recover=False,
                state=None,
            )
            for number, assigned in enumerate(plan.assignments)
        }
        self._topic_is_there = True
        self._placed = {name: found.assigned for name, found in self.partitions.items()}
        self.partition_names = {found.tp: name for name, found in self.partitions.items()}

    def _next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def tp(self, partition: int) -> TopicPartition:
        """Return a partition of the one topic by its number."""
        return self.partitions[f"topic-{partition}"].tp

    def state(self, tp: TopicPartition) -> PartitionState | None:
        """Return the committed state of a partition."""
        return self.partitions[self.partition_names[tp]].state

    def highest_entry_epoch(self, broker_id: BrokerId) -> BrokerEpoch:
        """Return the highest epoch of a broker in any ISR or ELR, 0 without any."""
        states = (found.state for found in self.partitions.values() if found.state)
        entries = (entry for state in states for entry in state.candidates)
        epochs = (entry.broker_epoch for entry in entries if entry.broker_id == broker_id)
        return max(epochs, default=BrokerEpoch(0))

    def partitions_epoch(self) -> ControllerEpoch:
        """Return the highest controller epoch of all partitions."""
        states = (found.state for found in self.partitions.values())
        epochs = (state.controller_epoch for state in states if state is not None)
        return max(epochs, default=ControllerEpoch(0))

    def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Write the Lease; empty times are stamped."""
        if lease.resource_version != self.lease.resource_version:
            return None
        version = self._next_version()
        self.lease = replace(
            lease,
            resource_version=version,
            renew_time=lease.renew_time or f"t{version}",
            acquire_time=lease.acquire_time or f"t{version}",
        )
        return self.lease

    def put_record(self, record: ControllerRecord) -> ControllerRecord | None:
        """Write the controller's record: the epoch rises, or stays with the same holder."""
        known = self.record
        is_valid = record.controller_epoch > known.controller_epoch or (
            record.controller_epoch == known.controller_epoch
            and record.holder_identity == known.holder_identity
        )
        if record.resource_version != known.resource_version or not is_valid:
            return None
        self.record = replace(record, resource_version=self._next_version())
        return self.record

    @property
    def cluster(self) -> ClusterRecord:
        """The BrokerCluster; version and epoch are those of the controller's record in it."""
        return replace(
            self._cluster,
            resource_version=self.record.resource_version,
            controller_epoch=self.record.controller_epoch,
        )

    def put_cluster(self, written: ClusterRecord) -> ClusterRecord | None:
        """Write what the controller tells in the BrokerCluster."""
        if written.resource_version != self.record.resource_version:
            return None
        self.record = replace(self.record, resource_version=self._next_version())
        self._cluster = written
        return self.cluster

    def put_registration(
        self, found: StoredBroker, registration: Registration
    ) -> StoredBroker | None:
        """Write a Broker's status."""
        known = self.brokers[found.broker_id]
        if known.resource_version != found.resource_version:
            return None
        old = known.registration
        if old is not None and not (
            registration.broker_epoch > old.broker_epoch
            and registration.clean_since_epoch >= old.clean_since_epoch
        ):
            return None
        stored = replace(known, resource_version=self._next_version(), registration=registration)
        self.brokers[found.broker_id] = stored
        return stored

    @property
    def topics(self) -> tuple[StoredTopic, ...]:
        """The ReplicatedTopics that a list shows."""
        return (self.topic,) if self._topic_is_there else ()

    def delete_topic(self) -> None:
        """Delete the ReplicatedTopic; the garbage collector is slow, so its Partitions stay."""
        self._topic_is_there = False

    def return_topic(self) -> None:
        """Create the ReplicatedTopic again, with the same topic id."""
        self._topic_is_there = True

    def wish(self, name: str, replicas: tuple[BrokerId, ...]) -> StoredPartition:
        """Write the replicas that a partition shall have into its spec."""
        found = self.partitions[name]
        wished = replace(
            found,
            resource_version=self._next_version(),
            assigned=replicas,
            generation=found.generation + 1,
        )
        self.partitions[name] = wished
        return wished

    def lose_partition(self, name: str) -> StoredPartition:
        """Replace a Partition by one without a status, as the operator makes a lost one anew.

        The operator places it where a new one would be: it does not know where it had moved.
        """
        lost = replace(
            self.partitions[name],
            resource_version=self._next_version(),
            recover=True,
            state=None,
            assigned=self._placed[name],
            generation=0,
        )
        self.partitions[name] = lost
        return lost

    def put_partition_status(
        self, name: str, resource_version: str, state: PartitionState
    ) -> StoredPartition | None:
        """Write a Partition's status."""
        known = self.partitions[name]
        if known.resource_version != resource_version or not is_valid_status(known.state, state):
            return None
        stored = replace(known, resource_version=self._next_version(), state=state)
        self.partitions[name] = stored
        return stored


def is_valid_status(old: PartitionState | None, new: PartitionState) -> bool:
    """Apply the CRD's rules to a status."""
    candidates = [entry.broker_id for entry in new.candidates]
    moving = (new.adding_replicas, new.removing_replicas)
    well_formed = (
        len(new.replicas) <= REPLICAS_MAX
        and all(not each or set(each) < set(new.replicas) for each in moving)
        and (new.leader == NO_LEADER or new.leader in new.isr_ids)
        and len(set(candidates)) == len(candidates)
        and set(candidates) <= set(new.replicas)
        and (not new.eligible_leaders or len(new.isr) < new.min_insync_replicas)
    )
    if old is None or not well_formed:
        return well_formed
    return (
        new.leader_epoch >= old.leader_epoch
        and new.controller_epoch >= old.controller_epoch
        and (new == old or _is_next(old, new))
        and (new.leader == old.leader or new.leader_epoch != old.leader_epoch)
        and (set(old.replicas) <= set(new.replicas) or new.leader_epoch > old.leader_epoch)
    )


def _is_next(old: PartitionState, new: PartitionState) -> bool:
    """Tell whether the epochs rise one by one; the fence of a lost partition may leave some out."""
    if new.reason == STATE_LOST and new.leader == NO_LEADER:
        return new.partition_epoch > old.partition_epoch
    return (
        new.partition_epoch == old.partition_epoch + 1
        and new.leader_epoch <= old.leader_epoch + 1
        and new.controller_epoch <= old.controller_epoch + 1_000_000
    )
