"""Every metric name of the project, with its labels and Kafka's metric of the same meaning.

The exporters in `runtime`, the analysis and the tests of the dashboard read them here; no
other file spells a metric name. A row enters together with the code that exports it.
Counters end in `_total`, times are seconds and sizes bytes on the wire, gauges are read
when they are scraped. No label has unbounded values.
"""

from __future__ import annotations

from functools import partial

from .metric import Exporter, Metric, MetricKind, metric_row

__all__ = ["Exporter", "Metric", "MetricKind"]
"""What readers of the rows find here, too, beside the rows."""

TOPIC = "topic"
PARTITION = "partition"
REPLICA = "replica"
"""Label: the broker id of a replica."""


_replica_gauge = partial(metric_row, MetricKind.GAUGE, Exporter.REPLICA, (TOPIC, PARTITION))
_replica_counter = partial(metric_row, MetricKind.COUNTER, Exporter.REPLICA, (TOPIC, PARTITION))
_leader_gauge = partial(metric_row, MetricKind.GAUGE, Exporter.LEADER, (TOPIC, PARTITION))
_leader_counter = partial(metric_row, MetricKind.COUNTER, Exporter.LEADER, (TOPIC, PARTITION))
_topic_counter = partial(metric_row, MetricKind.COUNTER, Exporter.LEADER, (TOPIC,))
_broker_gauge = partial(metric_row, MetricKind.GAUGE, Exporter.BROKER, ())
_broker_counter = partial(metric_row, MetricKind.COUNTER, Exporter.BROKER, ())
_broker_histogram = partial(metric_row, MetricKind.HISTOGRAM, Exporter.BROKER, ())
_controller_gauge = partial(metric_row, MetricKind.GAUGE, Exporter.CONTROLLER, ())
_controller_counter = partial(metric_row, MetricKind.COUNTER, Exporter.CONTROLLER, ())
_controller_histogram = partial(metric_row, MetricKind.HISTOGRAM, Exporter.CONTROLLER, ())
_operator_gauge = partial(metric_row, MetricKind.GAUGE, Exporter.OPERATOR, ())
_analysis_gauge = partial(metric_row, MetricKind.GAUGE, Exporter.OPERATOR, ("cluster",))
_operator_counter = partial(metric_row, MetricKind.COUNTER, Exporter.OPERATOR, ())
_operator_histogram = partial(metric_row, MetricKind.HISTOGRAM, Exporter.OPERATOR, ())


# --- a partition, as each of its replicas sees it ---------------------------------------

PARTITION_LOG_START_OFFSET = _replica_gauge(
    "strandline_partition_log_start_offset",
    "First offset still kept.",
    kafka="kafka.log:Log LogStartOffset",
)
PARTITION_LOG_END_OFFSET = _replica_gauge(
    "strandline_partition_log_end_offset",
    "Next offset to be written (LEO).",
    kafka="kafka.log:Log LogEndOffset",
)
PARTITION_HIGH_WATERMARK = _replica_gauge(
    "strandline_partition_high_watermark", "First offset not known to be committed (HW)."
)
PARTITION_LEADER_EPOCH = _replica_gauge(
    "strandline_partition_leader_epoch",
    "Version of the partition's leadership that this replica obeys.",
)
PARTITION_IS_LEADER = _replica_gauge(
    "strandline_partition_is_leader", "1 on the replica that leads, 0 on the others."
)
PARTITION_LOG_SIZE_BYTES = _replica_gauge(
    "strandline_partition_log_size_bytes",
    "Bytes of all segments of the log.",
    kafka="kafka.log:Log Size",
)
PARTITION_LOG_SEGMENTS = _replica_gauge(
    "strandline_partition_log_segments",
    "Number of segments of the log.",
    kafka="kafka.log:Log NumLogSegments",
)

# --- a partition, as its leader sees it -------------------------------------------------

PARTITION_REPLICAS = _leader_gauge(
    "strandline_partition_replicas",
    "Number of assigned replicas.",
    kafka="kafka.cluster:Partition ReplicasCount",
)
PARTITION_ISR_SIZE = _leader_gauge(
    "strandline_partition_isr_size",
    "Number of in-sync replicas the controller accepted.",
    kafka="kafka.cluster:Partition InSyncReplicasCount",
)
PARTITION_ELIGIBLE_LEADERS = _leader_gauge(
    "strandline_partition_eligible_leaders",
    "Number of replicas outside the ISR that may lead without loss; 0 at min ISR.",
    kafka="none; Elr of DescribeTopicPartitions (KIP-966)",
)
PARTITION_MIN_INSYNC_REPLICAS = _leader_gauge(
    "strandline_partition_min_insync_replicas", "In-sync replicas below which acks=all is refused."
)
PARTITION_PARTITION_EPOCH = _leader_gauge(
    "strandline_partition_partition_epoch", "Version of the partition's stored state."
)
PARTITION_ISR_MEMBER = _leader_gauge(
    "strandline_partition_isr_member",
    "1 for a replica in the ISR, 0 for an assigned one outside it.",
    REPLICA,
)
PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS = _leader_gauge(
    "strandline_partition_leader_since_timestamp_seconds",
    "Wall time at which this leadership began.",
)
PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS = _leader_gauge(
    "strandline_partition_isr_last_change_timestamp_seconds",
    "Wall time at which this leader last saw the ISR change.",
)
REPLICA_LOG_END_OFFSET = _leader_gauge(
    "strandline_replica_log_end_offset",
    "A replica's log end offset as its leader knows it.",
    REPLICA,
    kafka="kafka.server:FetcherLagMetrics ConsumerLag is the difference, on the follower",
)
REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS = _leader_gauge(
    "strandline_replica_last_caught_up_timestamp_seconds",
    "Wall time at which a replica last had everything its leader had.",
    REPLICA,
)
ISR_SHRINKS_TOTAL = _leader_counter(
    "strandline_isr_shrinks_total",
    "Accepted ISR changes that removed a replica.",
    kafka="kafka.server:ReplicaManager IsrShrinksPerSec",
)
ISR_EXPANDS_TOTAL = _leader_counter(
    "strandline_isr_expands_total",
    "Accepted ISR changes that added a replica.",
    kafka="kafka.server:ReplicaManager IsrExpandsPerSec",
)
ISR_UPDATE_FAILURES_TOTAL = _broker_counter(
    "strandline_isr_update_failures_total",
    "ISR changes the controller did not accept.",
    "reason",
    kafka="kafka.server:ReplicaManager FailedIsrUpdatesPerSec",
)
TRUNCATIONS_TOTAL = _replica_counter(
    "strandline_truncations_total",
    "Times the end of a log was cut off to agree with its leader.",
    "reason",
)
TRUNCATED_RECORDS_TOTAL = _replica_counter(
    "strandline_truncated_records_total", "Records cut off the ends of logs.", "reason"
)
TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL = _replica_counter(
    "strandline_truncations_below_high_watermark_total",
    "Truncations that removed records known to be committed.",
    "reason",
)

# --- a broker ---------------------------------------------------------------------------

BROKER_LEADERS = _broker_gauge(
    "strandline_broker_leaders",
    "Partitions this broker leads.",
    kafka="kafka.server:ReplicaManager LeaderCount",
)
BROKER_LEADERS_FOR_OTHERS = _broker_gauge(
    "strandline_broker_leaders_for_others",
    "Partitions this broker leads although another one is their preferred leader.",
    kafka="kafka.controller:KafkaController PreferredReplicaImbalanceCount is their number",
)
BROKER_PARTITIONS = _broker_gauge(
    "strandline_broker_partitions",
    "Partitions this broker has a replica of.",
    kafka="kafka.server:ReplicaManager PartitionCount",
)
BROKER_UNDER_REPLICATED_PARTITIONS = _broker_gauge(
    "strandline_broker_under_replicated_partitions",
    "Led partitions with fewer in-sync than assigned replicas.",
    kafka="kafka.server:ReplicaManager UnderReplicatedPartitions",
)
BROKER_UNDER_MIN_ISR_PARTITIONS = _broker_gauge(
    "strandline_broker_under_min_isr_partitions",
    "Led partitions that refuse acks=all.",
    kafka="kafka.server:ReplicaManager UnderMinIsrPartitionCount",
)
BROKER_AT_MIN_ISR_PARTITIONS = _broker_gauge(
    "strandline_broker_at_min_isr_partitions",
    "Led partitions that refuse acks=all once one more replica leaves.",
    kafka="kafka.server:ReplicaManager AtMinIsrPartitionCount",
)
BROKER_OFFLINE_REPLICAS = _broker_gauge(
    "strandline_broker_offline_replicas",
    "Replicas this broker cannot read or write.",
    kafka="kafka.server:ReplicaManager OfflineReplicaCount",
)
BROKER_EPOCH = _broker_gauge(
    "strandline_broker_epoch", "Version of this broker's registration, one for each start."
)
BROKER_FENCED = _broker_gauge(
    "strandline_broker_fenced",
    "1 while the controller does not count this broker as live.",
    kafka="kafka.controller:KafkaController FencedBrokerCount is their number",
)
BROKER_START_TIMESTAMP_SECONDS = _broker_gauge(
    "strandline_broker_start_timestamp_seconds", "Wall time at which this process began to serve."
)
UNCLEAN_STARTS_TOTAL = _broker_counter(
    "strandline_unclean_starts_total",
    "1 if this process started on logs that may have lost their ends, else 0.",
)
PRODUCED_RECORDS_TOTAL = _topic_counter(
    "strandline_produced_records_total",
    "Records clients appended.",
    kafka="kafka.server:BrokerTopicMetrics MessagesInPerSec",
)
PRODUCED_BYTES_TOTAL = _topic_counter(
    "strandline_produced_bytes_total",
    "Bytes clients appended.",
    kafka="kafka.server:BrokerTopicMetrics BytesInPerSec",
)
FETCHED_BYTES_TOTAL = _broker_counter(
    "strandline_fetched_bytes_total",
    "Bytes sent to clients; reader is consumer.",
    TOPIC,
    "reader",
    kafka="kafka.server:BrokerTopicMetrics BytesOutPerSec",
)
REPLICATION_BYTES_TOTAL = _broker_counter(
    "strandline_replication_bytes_total",
    "Bytes of replication streams; direction is in or out.",
    "direction",
    kafka="kafka.server:BrokerTopicMetrics ReplicationBytesInPerSec, ReplicationBytesOutPerSec",
)
COPIED_BYTES_TOTAL = _broker_counter(
    "strandline_copied_bytes_total",
    "Bytes sent to replicas that are being added; part of the replication bytes out.",
    kafka="kafka.server:LeaderReplication byte-rate",
)
COPIES_HELD_BACK_TOTAL = _broker_counter(
    "strandline_copies_held_back_total",
    "Responses that left such a replica out because of leader.replication.throttled.rate.",
)
REQUESTS_TOTAL = _broker_counter(
    "strandline_requests_total",
    "Answered requests by error name.",
    "api",
    "error",
    kafka="kafka.network:RequestMetrics RequestsPerSec, ErrorsPerSec",
)
REQUEST_SECONDS = _broker_histogram(
    "strandline_request_seconds",
    "Time of requests; stage is local, remote or send.",
    "api",
    "stage",
    kafka="kafka.network:RequestMetrics TotalTimeMs and its parts",
)
UNSUPPORTED_REQUESTS_TOTAL = _broker_counter(
    "strandline_unsupported_requests_total",
    "Requests of an API or version that is not served.",
    "api",
    "client",
)
PURGATORY_SIZE = _broker_gauge(
    "strandline_purgatory_size",
    "Requests waiting for an offset or a deadline.",
    "operation",
    kafka="kafka.server:DelayedOperationPurgatory PurgatorySize",
)
PURGATORY_EXPIRED_TOTAL = _broker_counter(
    "strandline_purgatory_expired_total",
    "Waiting requests whose deadline came first.",
    "operation",
    kafka="kafka.server:DelayedOperation ExpiresPerSec",
)
FENCED_REQUESTS_TOTAL = _broker_counter(
    "strandline_fenced_requests_total",
    "Refusals by epoch; fence is controller_epoch, broker_epoch, leader_epoch or topic_id.",
    "fence",
)
EVENT_LOOP_LAG_SECONDS = _broker_histogram(
    "strandline_event_loop_lag_seconds", "How late the event loop ran a timer."
)
LOG_FLUSH_SECONDS = _broker_histogram(
    "strandline_log_flush_seconds",
    "Time of an fsync of a log.",
    kafka="kafka.log:LogFlushStats LogFlushRateAndTimeMs",
)
LOG_RECOVERY_REMAINING_LOGS = _broker_gauge(
    "strandline_log_recovery_remaining_logs",
    "Logs that this start has not loaded yet; 0 once all are on disk.",
    kafka="kafka.log:LogManager remainingLogsToRecover",
)
LOG_DIRECTORY_FAILED = _broker_gauge(
    "strandline_log_directory_failed",
    "1 once the log directory can no longer be read or written.",
    kafka="kafka.log:LogManager OfflineLogDirectoryCount",
)
LOG_DIRECTORY_TOTAL_BYTES = _broker_gauge(
    "strandline_log_directory_total_bytes",
    "Size of the volume of the log directory.",
)
LOG_DIRECTORY_FREE_BYTES = _broker_gauge(
    "strandline_log_directory_free_bytes",
    "Bytes of that volume that are free.",
)
LOG_DIRECTORY_FULL = _broker_gauge(
    "strandline_log_directory_full",
    "1 while records of clients are refused because the volume is filled beyond log.dir.fill.max.",
)
LOG_DIRECTORY_FILL_SECONDS = _broker_gauge(
    "strandline_log_directory_fill_seconds",
    "Seconds until the volume is filled up to log.dir.fill.max, at the rate of the last 10 minutes;"
    " +Inf while it does not fill up.",
)
LOG_TRASH_BYTES = _broker_gauge(
    "strandline_log_trash_bytes", "Bytes of deleted logs that can still be brought back."
)
INVARIANT_VIOLATIONS_TOTAL = _broker_counter(
    "strandline_invariant_violations_total",
    "Promises of our own code found broken; the broker stops.",
    "rule",
)

# --- the controller ---------------------------------------------------------------------

CONTROLLER_ACTIVE = _broker_gauge(
    "strandline_controller_active",
    "1 on the broker that is the controller.",
    kafka="kafka.controller:KafkaController ActiveControllerCount",
)
CONTROLLER_EPOCH = _broker_gauge(
    "strandline_controller_epoch", "Highest controller epoch this broker obeyed."
)
CONTROLLER_QUEUE_SIZE = _controller_gauge(
    "strandline_controller_queue_size",
    "Events waiting for the controller.",
    kafka="kafka.controller:ControllerEventManager EventQueueSize",
)
CONTROLLER_EVENT_SECONDS = _controller_histogram(
    "strandline_controller_event_seconds",
    "Time the controller took to decide on an event.",
    "event",
    kafka="kafka.controller:ControllerEventManager EventQueueProcessingTimeMs",
)
LEADER_ELECTIONS_TOTAL = _controller_counter(
    "strandline_leader_elections_total",
    "Elections; kind is new, offline, controlled_shutdown, volume_full, unclean, "
    "reassignment or preferred.",
    "kind",
    kafka="kafka.controller:ControllerStats LeaderElectionRateAndTimeMs, "
    "UncleanLeaderElectionsPerSec",
)
FAILOVER_SECONDS = _controller_histogram(
    "strandline_failover_seconds",
    "Parts of a failover; phase is detect or elect.",
    "kind",
    "phase",
    kafka="kafka.controller:ControllerStats LeaderElectionRateAndTimeMs",
)
OFFLINE_PARTITIONS = _controller_gauge(
    "strandline_offline_partitions",
    "Partitions without a leader.",
    kafka="kafka.controller:KafkaController OfflinePartitionsCount",
)
STRAY_TOPICS = _controller_gauge(
    "strandline_stray_topics",
    "Topic ids with logs and without a ReplicatedTopic; where is disk, or trash for logs in the "
    "trash alone.",
    "where",
)

# --- Kubernetes, as brokers meet it -----------------------------------------------------

LEASE_RENEW_SECONDS = _broker_histogram(
    "strandline_lease_renew_seconds",
    "Time of a Lease renewal.",
    "lease",
    kafka="kafka.server:ZooKeeperClientMetrics ZooKeeperRequestLatencyMs",
)
LEASE_TRANSITIONS_TOTAL = _broker_counter(
    "strandline_lease_transitions_total", "Times this process took a Lease.", "lease"
)
LEASE_LOST_TOTAL = _broker_counter(
    "strandline_lease_lost_total",
    "Times this process held a Lease and no longer does.",
    "lease",
    kafka="kafka.server:SessionExpireListener ZooKeeperExpiresPerSec",
)
KUBERNETES_REQUESTS_TOTAL = _broker_counter(
    "strandline_kubernetes_requests_total",
    "Requests to the API server.",
    "verb",
    "resource",
    "code",
)
KUBERNETES_REQUEST_SECONDS = _broker_histogram(
    "strandline_kubernetes_request_seconds",
    "Time of requests to the API server.",
    "verb",
    "resource",
    "code",
    kafka="kafka.server:ZooKeeperClientMetrics ZooKeeperRequestLatencyMs",
)
KUBERNETES_CONFLICTS_TOTAL = _broker_counter(
    "strandline_kubernetes_conflicts_total",
    "Compare-and-swap writes that came too late.",
    "verb",
    "resource",
)
WATCH_LAST_EVENT_TIMESTAMP_SECONDS = _broker_gauge(
    "strandline_watch_last_event_timestamp_seconds",
    "Wall time at which a watch was last opened or showed an event or bookmark; absent while the "
    "broker needs no such watch.",
    "resource",
)

# --- the operator; it exports its requests to the API server, too ------------------------

OPERATOR_RECONCILES_TOTAL = _operator_counter(
    "strandline_operator_reconciles_total",
    "Passes over a BrokerCluster or ReplicatedTopic; result is done or failed.",
    "kind",
    "result",
)
OPERATOR_RECONCILE_SECONDS = _operator_histogram(
    "strandline_operator_reconcile_seconds", "Time of a pass.", "kind"
)
OPERATOR_QUEUE_LENGTH = _operator_gauge(
    "strandline_operator_queue_length", "Clusters and topics that wait for a pass."
)
OPERATOR_QUEUE_SECONDS = _operator_histogram(
    "strandline_operator_queue_seconds", "Time from when a pass was due until it began."
)
OPERATOR_READY = _operator_gauge(
    "strandline_operator_ready",
    "1 while the operator has its definitions and its watches show changes, as /ready says.",
)
OPERATOR_CONDITION = _operator_gauge(
    "strandline_operator_condition",
    "Conditions of clusters and topics as last seen: 1 is True, 0 False, -1 Unknown.",
    "kind",
    "name",
    "condition",
    "reason",
)
OPERATOR_DEFINITIONS_LACKING = _operator_gauge(
    "strandline_operator_definitions_lacking",
    "Kinds and fields that the served definitions lack; work waits while there are any.",
)

# --- what the last run of the analysis told the operator (ADR 0066) -----------------------

ANALYSIS_RUN_TIMESTAMP_SECONDS = _analysis_gauge(
    "strandline_analysis_run_timestamp_seconds", "When the last run ended."
)
ANALYSIS_WINDOW_SECONDS = _analysis_gauge(
    "strandline_analysis_window_seconds", "Length of the range of time that it was about."
)
ANALYSIS_COVERAGE_RATIO = _analysis_gauge(
    "strandline_analysis_coverage_ratio",
    "Share of the partitions' time that its samples tell of, 0 to 1.",
)
ANALYSIS_INCIDENTS = _analysis_gauge("strandline_analysis_incidents", "Incidents that it found.")
ANALYSIS_ELECTIONS = _analysis_gauge("strandline_analysis_elections", "Elections that it found.")
ANALYSIS_ISR_SHRINKS = _analysis_gauge(
    "strandline_analysis_isr_shrinks", "Times that it saw a replica leave an ISR."
)
ANALYSIS_LEADERLESS_SECONDS = _analysis_gauge(
    "strandline_analysis_leaderless_seconds",
    "Time without a leader, summed over its elections; bound is low or high.",
    "bound",
)
ANALYSIS_RECORDS_AT_RISK = _analysis_gauge(
    "strandline_analysis_records_at_risk", "Acknowledged records that one broker alone had."
)
ANALYSIS_RECORDS_LOST = _analysis_gauge(
    "strandline_analysis_records_lost", "Of these, records lost to an unclean election, at most."
)

_ROWS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
ALL_METRICS: tuple[Metric, ...] = tuple(
    row for row in _ROWS if row.exporter is not Exporter.OPERATOR
)
"""Every row above that brokers export, in the order of this file."""
OPERATOR_METRICS: tuple[Metric, ...] = tuple(
    row for row in _ROWS if row.exporter is Exporter.OPERATOR
)
"""Every row above that the operator alone exports."""
