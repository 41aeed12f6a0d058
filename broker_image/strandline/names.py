"""Every metric name of the project, with its labels and Kafka's metric of the same meaning.

The exporters in `runtime`, the analysis and the tests of the dashboard read them here; no
other file spells a metric name. A row enters together with the code that exports it.
Counters end in `_total`, times are seconds and sizes bytes on the wire, gauges are read
when they are scraped. No label has unbounded values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial


class MetricKind(Enum):
    """The metric types of Prometheus that we use; values are Prometheus's words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Exporter(Enum):
    """Which brokers export a metric; on the others it is absent, not zero."""

    REPLICA = "every replica of a partition"
    LEADER = "the leader of a partition"
    BROKER = "every broker"
    CONTROLLER = "the broker that is the controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the list.

    kafka is the MBean of the same meaning, "" where Kafka has none; help is a sentence that
    does not name it.
    """

    name: str
    kind: MetricKind
    exporter: Exporter
    help: str
    labels: tuple[str, ...] = ()
    kafka: str = ""

    @property
    def documentation(self) -> str:
        """The help text on the wire: help, then Kafka's metric of the same meaning."""
        return f"{self.help} Kafka: {self.kafka}." if self.kafka else self.help


TOPIC = "topic"
PARTITION = "partition"
REPLICA = "replica"
"""Label: the broker id of a replica."""


def _metric(
    kind: MetricKind, name: str, exporter: Exporter, help_: str, *labels: str, kafka: str = ""
) -> Metric:
    return Metric(name=name, kind=kind, exporter=exporter, help=help_, labels=labels, kafka=kafka)


def _of_partition(
    kind: MetricKind, name: str, exporter: Exporter, help_: str, *labels: str, kafka: str = ""
) -> Metric:
    return _metric(kind, name, exporter, help_, TOPIC, PARTITION, *labels, kafka=kafka)


_gauge = partial(_metric, MetricKind.GAUGE)
_counter = partial(_metric, MetricKind.COUNTER)
_histogram = partial(_metric, MetricKind.HISTOGRAM)
_partition_gauge = partial(_of_partition, MetricKind.GAUGE)
_partition_counter = partial(_of_partition, MetricKind.COUNTER)


# --- a partition, as each of its replicas sees it ---------------------------------------

PARTITION_LOG_START_OFFSET = _partition_gauge(
    "strandline_partition_log_start_offset",
    Exporter.REPLICA,
    "First offset still kept.",
    kafka="kafka.log:Log LogStartOffset",
)
PARTITION_LOG_END_OFFSET = _partition_gauge(
    "strandline_partition_log_end_offset",
    Exporter.REPLICA,
    "Next offset to be written (LEO).",
    kafka="kafka.log:Log LogEndOffset",
)
PARTITION_HIGH_WATERMARK = _partition_gauge(
    "strandline_partition_high_watermark",
    Exporter.REPLICA,
    "First offset not known to be committed (HW).",
)
PARTITION_LEADER_EPOCH = _partition_gauge(
    "strandline_partition_leader_epoch",
    Exporter.REPLICA,
    "Version of the partition's leadership that this replica obeys.",
)
PARTITION_IS_LEADER = _partition_gauge(
    "strandline_partition_is_leader",
    Exporter.REPLICA,
    "1 on the replica that leads, 0 on the others.",
)
PARTITION_LOG_SIZE_BYTES = _partition_gauge(
    "strandline_partition_log_size_bytes",
    Exporter.REPLICA,
    "Bytes of all segments of the log.",
    kafka="kafka.log:Log Size",
)
PARTITION_LOG_SEGMENTS = _partition_gauge(
    "strandline_partition_log_segments",
    Exporter.REPLICA,
    "Number of segments of the log.",
    kafka="kafka.log:Log NumLogSegments",
)

# --- a partition, as its leader sees it -------------------------------------------------

PARTITION_REPLICAS = _partition_gauge(
    "strandline_partition_replicas",
    Exporter.LEADER,
    "Number of assigned replicas.",
    kafka="kafka.cluster:Partition ReplicasCount",
)
PARTITION_ISR_SIZE = _partition_gauge(
    "strandline_partition_isr_size",
    Exporter.LEADER,
    "Number of in-sync replicas the controller accepted.",
    kafka="kafka.cluster:Partition InSyncReplicasCount",
)
PARTITION_MIN_INSYNC_REPLICAS = _partition_gauge(
    "strandline_partition_min_insync_replicas",
    Exporter.LEADER,
    "In-sync replicas below which acks=all is refused.",
)
PARTITION_PARTITION_EPOCH = _partition_gauge(
    "strandline_partition_partition_epoch",
    Exporter.LEADER,
    "Version of the partition's stored state.",
)
PARTITION_ISR_MEMBER = _partition_gauge(
    "strandline_partition_isr_member",
    Exporter.LEADER,
    "1 for a replica in the ISR, 0 for an assigned one outside it.",
    REPLICA,
)
PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS = _partition_gauge(
    "strandline_partition_leader_since_timestamp_seconds",
    Exporter.LEADER,
    "Wall time at which this leadership began.",
)
PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS = _partition_gauge(
    "strandline_partition_isr_last_change_timestamp_seconds",
    Exporter.LEADER,
    "Wall time at which this leader last saw the ISR change.",
)
REPLICA_LOG_END_OFFSET = _partition_gauge(
    "strandline_replica_log_end_offset",
    Exporter.LEADER,
    "A replica's log end offset as its leader knows it.",
    REPLICA,
    kafka="kafka.server:FetcherLagMetrics ConsumerLag is the difference, on the follower",
)
REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS = _partition_gauge(
    "strandline_replica_last_caught_up_timestamp_seconds",
    Exporter.LEADER,
    "Wall time at which a replica last had everything its leader had.",
    REPLICA,
)
ISR_SHRINKS_TOTAL = _partition_counter(
    "strandline_isr_shrinks_total",
    Exporter.LEADER,
    "Accepted ISR changes that removed a replica.",
    kafka="kafka.server:ReplicaManager IsrShrinksPerSec",
)
ISR_EXPANDS_TOTAL = _partition_counter(
    "strandline_isr_expands_total",
    Exporter.LEADER,
    "Accepted ISR changes that added a replica.",
    kafka="kafka.server:ReplicaManager IsrExpandsPerSec",
)
ISR_UPDATE_FAILURES_TOTAL = _counter(
    "strandline_isr_update_failures_total",
    Exporter.BROKER,
    "ISR changes the controller did not accept.",
    "reason",
    kafka="kafka.server:ReplicaManager FailedIsrUpdatesPerSec",
)
TRUNCATIONS_TOTAL = _partition_counter(
    "strandline_truncations_total",
    Exporter.REPLICA,
    "Times the end of a log was cut off to agree with its leader.",
    "reason",
)
TRUNCATED_RECORDS_TOTAL = _partition_counter(
    "strandline_truncated_records_total",
    Exporter.REPLICA,
    "Records cut off the ends of logs.",
    "reason",
)
TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL = _partition_counter(
    "strandline_truncations_below_high_watermark_total",
    Exporter.REPLICA,
    "Truncations that removed records known to be committed.",
    "reason",
)

# --- a broker ---------------------------------------------------------------------------

BROKER_LEADERS = _gauge(
    "strandline_broker_leaders",
    Exporter.BROKER,
    "Partitions this broker leads.",
    kafka="kafka.server:ReplicaManager LeaderCount",
)
BROKER_PARTITIONS = _gauge(
    "strandline_broker_partitions",
    Exporter.BROKER,
    "Partitions this broker has a replica of.",
    kafka="kafka.server:ReplicaManager PartitionCount",
)
BROKER_UNDER_REPLICATED_PARTITIONS = _gauge(
    "strandline_broker_under_replicated_partitions",
    Exporter.BROKER,
    "Led partitions with fewer in-sync than assigned replicas.",
    kafka="kafka.server:ReplicaManager UnderReplicatedPartitions",
)
BROKER_UNDER_MIN_ISR_PARTITIONS = _gauge(
    "strandline_broker_under_min_isr_partitions",
    Exporter.BROKER,
    "Led partitions that refuse acks=all.",
    kafka="kafka.server:ReplicaManager UnderMinIsrPartitionCount",
)
BROKER_AT_MIN_ISR_PARTITIONS = _gauge(
    "strandline_broker_at_min_isr_partitions",
    Exporter.BROKER,
    "Led partitions that refuse acks=all once one more replica leaves.",
    kafka="kafka.server:ReplicaManager AtMinIsrPartitionCount",
)
BROKER_OFFLINE_REPLICAS = _gauge(
    "strandline_broker_offline_replicas",
    Exporter.BROKER,
    "Replicas this broker cannot read or write.",
    kafka="kafka.server:ReplicaManager OfflineReplicaCount",
)
BROKER_EPOCH = _gauge(
    "strandline_broker_epoch",
    Exporter.BROKER,
    "Version of this broker's registration, one for each start.",
)
BROKER_FENCED = _gauge(
    "strandline_broker_fenced",
    Exporter.BROKER,
    "1 while the controller does not count this broker as live.",
    kafka="kafka.controller:KafkaController FencedBrokerCount is their number",
)
BROKER_START_TIMESTAMP_SECONDS = _gauge(
    "strandline_broker_start_timestamp_seconds",
    Exporter.BROKER,
    "Wall time at which this process began to serve.",
)
UNCLEAN_STARTS_TOTAL = _counter(
    "strandline_unclean_starts_total",
    Exporter.BROKER,
    "1 if this process started on logs that may have lost their ends, else 0.",
)
PRODUCED_RECORDS_TOTAL = _counter(
    "strandline_produced_records_total",
    Exporter.LEADER,
    "Records clients appended.",
    TOPIC,
    kafka="kafka.server:BrokerTopicMetrics MessagesInPerSec",
)
PRODUCED_BYTES_TOTAL = _counter(
    "strandline_produced_bytes_total",
    Exporter.LEADER,
    "Bytes clients appended.",
    TOPIC,
    kafka="kafka.server:BrokerTopicMetrics BytesInPerSec",
)
FETCHED_BYTES_TOTAL = _counter(
    "strandline_fetched_bytes_total",
    Exporter.BROKER,
    "Bytes sent to clients; reader is consumer.",
    TOPIC,
    "reader",
    kafka="kafka.server:BrokerTopicMetrics BytesOutPerSec",
)
REPLICATION_BYTES_TOTAL = _counter(
    "strandline_replication_bytes_total",
    Exporter.BROKER,
    "Bytes of replication streams; direction is in or out.",
    "direction",
    kafka="kafka.server:BrokerTopicMetrics ReplicationBytesInPerSec, ReplicationBytesOutPerSec",
)
REQUESTS_TOTAL = _counter(
    "strandline_requests_total",
    Exporter.BROKER,
    "Answered requests by error name.",
    "api",
    "error",
    kafka="kafka.network:RequestMetrics RequestsPerSec, ErrorsPerSec",
)
REQUEST_SECONDS = _histogram(
    "strandline_request_seconds",
    Exporter.BROKER,
    "Time of requests; stage is local, remote or send.",
    "api",
    "stage",
    kafka="kafka.network:RequestMetrics TotalTimeMs and its parts",
)
UNSUPPORTED_REQUESTS_TOTAL = _counter(
    "strandline_unsupported_requests_total",
    Exporter.BROKER,
    "Requests of an API or version that is not served.",
    "api",
    "client",
)
PURGATORY_SIZE = _gauge(
    "strandline_purgatory_size",
    Exporter.BROKER,
    "Requests waiting for an offset or a deadline.",
    "operation",
    kafka="kafka.server:DelayedOperationPurgatory PurgatorySize",
)
PURGATORY_EXPIRED_TOTAL = _counter(
    "strandline_purgatory_expired_total",
    Exporter.BROKER,
    "Waiting requests whose deadline came first.",
    "operation",
    kafka="kafka.server:DelayedOperation ExpiresPerSec",
)
FENCED_REQUESTS_TOTAL = _counter(
    "strandline_fenced_requests_total",
    Exporter.BROKER,
    "Refusals by epoch; fence is controller_epoch, broker_epoch, leader_epoch or topic_id.",
    "fence",
)
EVENT_LOOP_LAG_SECONDS = _histogram(
    "strandline_event_loop_lag_seconds",
    Exporter.BROKER,
    "How late the event loop ran a timer.",
)
LOG_FLUSH_SECONDS = _histogram(
    "strandline_log_flush_seconds",
    Exporter.BROKER,
    "Time of an fsync of a log.",
    kafka="kafka.log:LogFlushStats LogFlushRateAndTimeMs",
)
LOG_DIRECTORY_FAILED = _gauge(
    "strandline_log_directory_failed",
    Exporter.BROKER,
    "1 once the log directory can no longer be read or written.",
    kafka="kafka.log:LogManager OfflineLogDirectoryCount",
)
INVARIANT_VIOLATIONS_TOTAL = _counter(
    "strandline_invariant_violations_total",
    Exporter.BROKER,
    "Promises of our own code found broken; the broker stops.",
    "rule",
)

# --- the controller ---------------------------------------------------------------------

CONTROLLER_ACTIVE = _gauge(
    "strandline_controller_active",
    Exporter.BROKER,
    "1 on the broker that is the controller.",
    kafka="kafka.controller:KafkaController ActiveControllerCount",
)
CONTROLLER_EPOCH = _gauge(
    "strandline_controller_epoch", Exporter.BROKER, "Highest controller epoch this broker obeyed."
)
CONTROLLER_QUEUE_SIZE = _gauge(
    "strandline_controller_queue_size",
    Exporter.CONTROLLER,
    "Events waiting for the controller.",
    kafka="kafka.controller:ControllerEventManager EventQueueSize",
)
CONTROLLER_EVENT_SECONDS = _histogram(
    "strandline_controller_event_seconds",
    Exporter.CONTROLLER,
    "Time the controller took to decide on an event.",
    "event",
    kafka="kafka.controller:ControllerEventManager EventQueueProcessingTimeMs",
)
LEADER_ELECTIONS_TOTAL = _counter(
    "strandline_leader_elections_total",
    Exporter.CONTROLLER,
    "Elections; kind is new, offline, controlled_shutdown or unclean.",
    "kind",
    kafka="kafka.controller:ControllerStats LeaderElectionRateAndTimeMs, "
    "UncleanLeaderElectionsPerSec",
)
FAILOVER_SECONDS = _histogram(
    "strandline_failover_seconds",
    Exporter.CONTROLLER,
    "Parts of a failover; phase is detect or elect.",
    "kind",
    "phase",
    kafka="kafka.controller:ControllerStats LeaderElectionRateAndTimeMs",
)
OFFLINE_PARTITIONS = _gauge(
    "strandline_offline_partitions",
    Exporter.CONTROLLER,
    "Partitions without a leader.",
    kafka="kafka.controller:KafkaController OfflinePartitionsCount",
)

# --- Kubernetes, as brokers meet it -----------------------------------------------------

LEASE_RENEW_SECONDS = _histogram(
    "strandline_lease_renew_seconds",
    Exporter.BROKER,
    "Time of a Lease renewal.",
    "lease",
    kafka="kafka.server:ZooKeeperClientMetrics ZooKeeperRequestLatencyMs",
)
LEASE_TRANSITIONS_TOTAL = _counter(
    "strandline_lease_transitions_total",
    Exporter.BROKER,
    "Times this process took a Lease.",
    "lease",
)
LEASE_LOST_TOTAL = _counter(
    "strandline_lease_lost_total",
    Exporter.BROKER,
    "Times this process held a Lease and no longer does.",
    "lease",
    kafka="kafka.server:SessionExpireListener ZooKeeperExpiresPerSec",
)
KUBERNETES_REQUESTS_TOTAL = _counter(
    "strandline_kubernetes_requests_total",
    Exporter.BROKER,
    "Requests to the API server.",
    "verb",
    "resource",
    "code",
)
KUBERNETES_REQUEST_SECONDS = _histogram(
    "strandline_kubernetes_request_seconds",
    Exporter.BROKER,
    "Time of requests to the API server.",
    "verb",
    "resource",
    "code",
    kafka="kafka.server:ZooKeeperClientMetrics ZooKeeperRequestLatencyMs",
)
KUBERNETES_CONFLICTS_TOTAL = _counter(
    "strandline_kubernetes_conflicts_total",
    Exporter.BROKER,
    "Compare-and-swap writes that came too late.",
    "verb",
    "resource",
)
WATCH_LAST_EVENT_TIMESTAMP_SECONDS = _gauge(
    "strandline_watch_last_event_timestamp_seconds",
    Exporter.BROKER,
    "Wall time of the last event or bookmark of a watch.",
    "resource",
)

ALL_METRICS: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
"""Every row above, in the order of this file."""
