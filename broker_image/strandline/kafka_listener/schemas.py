"""The messages this listener serves: one table, in the notation of `schema_language`.

Called by `codec`. ApiVersions advertises the version range of each entry, and the listener serves
all of it, with two exceptions:

- Produce is advertised from version 0 but served from 3. Older librdkafka turns compression
  off when the lowest version is not 0 (KAFKA-18659).
- An unknown version of ApiVersions gets a response too, in the form of version 0 (KIP-511).

Source: Apache Kafka protocol guide; field names follow it in our spelling.
"""

from __future__ import annotations

from dataclasses import dataclass

from .schema_language import Field, parse_fields

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
FIND_COORDINATOR = 10
API_VERSIONS = 18
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSchema:
    """One API: its key, the versions advertised and served, and both messages.

    Versions from flexible_from on use compact lengths and tagged fields (KIP-482).
    """

    key: int
    name: str
    advertised_min: int
    served_min: int
    served_max: int
    flexible_from: int
    request: tuple[Field, ...]
    response: tuple[Field, ...]

    def serves(self, version: int) -> bool:
        """Tell whether requests of that version are served."""
        return self.served_min <= version <= self.served_max

    def is_flexible(self, version: int) -> bool:
        """Tell whether that version uses compact lengths and tagged fields."""
        return version >= self.flexible_from


_PRODUCE = ApiSchema(
    key=PRODUCE, name="Produce", advertised_min=0, served_min=3, served_max=11, flexible_from=9,
    request=parse_fields("""
        transactional_id string ? =null
        acks int16, timeout_ms int32
        topics []struct
            name string
            partitions []struct
                index int32, records records ?
    """),
    response=parse_fields("""
        topics []struct
            name string
            partitions []struct
                index int32, error_code int16, base_offset int64
                log_append_time_ms int64 =-1, log_start_offset int64 5+ =-1
                record_errors []struct 8+
                    batch_index int32, message string ? =null
                error_message string 8+ ? =null
                current_leader struct 10+ #0
                    leader_id int32 =-1, leader_epoch int32 =-1
        throttle_time_ms int32 =0
        node_endpoints []struct 10+ #0
            node_id int32, host string, port int32, rack string ? =null
    """),
)  # fmt: skip

_FETCH = ApiSchema(
    key=FETCH, name="Fetch", advertised_min=4, served_min=4, served_max=12, flexible_from=12,
    request=parse_fields("""
        cluster_id string 12+ ? #0 =null
        replica_id int32 =-1
        max_wait_ms int32, min_bytes int32, max_bytes int32 =2147483647
        isolation_level int8 =0
        session_id int32 7+ =0, session_epoch int32 7+ =-1
        topics []struct
            name string
            partitions []struct
                index int32, current_leader_epoch int32 9+ =-1
                fetch_offset int64, last_fetched_epoch int32 12+ =-1
                log_start_offset int64 5+ =-1, partition_max_bytes int32
        forgotten_topics []struct 7+
            name string, partitions []int32
        rack_id string 11+ =''
    """),
    response=parse_fields("""
        throttle_time_ms int32 =0
        error_code int16 7+ =0, session_id int32 7+ =0
        topics []struct
            name string
            partitions []struct
                index int32, error_code int16
                high_watermark int64, last_stable_offset int64 =-1
                log_start_offset int64 5+ =-1
                diverging_epoch struct 12+ #0
                    epoch int32 =-1, end_offset int64 =-1
                current_leader struct 12+ #1
                    leader_id int32 =-1, leader_epoch int32 =-1
                snapshot_id struct 12+ #2
                    end_offset int64 =-1, epoch int32 =-1
                aborted_transactions []struct ?
                    producer_id int64, first_offset int64
                preferred_read_replica int32 11+ =-1
                records records ?
    """),
)  # fmt: skip

_LIST_OFFSETS = ApiSchema(
    key=LIST_OFFSETS, name="ListOffsets",
    advertised_min=1, served_min=1, served_max=6, flexible_from=6,
    request=parse_fields("""
        replica_id int32, isolation_level int8 2+
        topics []struct
            name string
            partitions []struct
                index int32, current_leader_epoch int32 4+ =-1, timestamp int64
    """),
    response=parse_fields("""
        throttle_time_ms int32 2+ =0
        topics []struct
            name string
            partitions []struct
                index int32, error_code int16
                timestamp int64 =-1, offset int64 =-1, leader_epoch int32 4+ =-1
    """),
)  # fmt: skip

_METADATA = ApiSchema(
    key=METADATA, name="Metadata", advertised_min=0, served_min=0, served_max=12, flexible_from=9,
    request=parse_fields("""
        topics []struct ?1+
            topic_id uuid 10+, name string ?10+
        allow_auto_topic_creation bool 4+ =true
        include_cluster_authorized_operations bool 8-10 =false
        include_topic_authorized_operations bool 8+ =false
    """),
    response=parse_fields("""
        throttle_time_ms int32 3+ =0
        brokers []struct
            node_id int32, host string, port int32, rack string 1+ ? =null
        cluster_id string 2+ ? =null, controller_id int32 1+ =-1
        topics []struct
            error_code int16, name string ?12+, topic_id uuid 10+, is_internal bool 1+ =false
            partitions []struct
                error_code int16, index int32
                leader_id int32, leader_epoch int32 7+ =-1
                replica_nodes []int32, isr_nodes []int32, offline_replicas []int32 5+
            topic_authorized_operations int32 8+ =-2147483648
        cluster_authorized_operations int32 8-10 =-2147483648
    """),
)  # fmt: skip

_FIND_COORDINATOR = ApiSchema(
    key=FIND_COORDINATOR, name="FindCoordinator",
    advertised_min=0, served_min=0, served_max=4, flexible_from=3,
    request=parse_fields("key string 0-3, key_type int8 1+ =0, coordinator_keys []string 4+"),
    response=parse_fields("""
        throttle_time_ms int32 1+ =0
        error_code int16 0-3, error_message string 1-3 ? =null
        node_id int32 0-3, host string 0-3, port int32 0-3
        coordinators []struct 4+
            key string, node_id int32, host string, port int32
            error_code int16, error_message string ? =null
    """),
)  # fmt: skip

_API_VERSIONS = ApiSchema(
    key=API_VERSIONS, name="ApiVersions",
    advertised_min=0, served_min=0, served_max=4, flexible_from=3,
    request=parse_fields("client_software_name string 3+, client_software_version string 3+"),
    response=parse_fields("""
        error_code int16
        api_keys []struct
            api_key int16, min_version int16, max_version int16
        throttle_time_ms int32 1+ =0
        supported_features []struct 3+ #0
            name string, min_version int16, max_version int16
        finalized_features_epoch int64 3+ #1 =-1
        finalized_features []struct 3+ #2
            name string, max_version_level int16, min_version_level int16
        zk_migration_ready bool 3+ #3 =false
    """),
)  # fmt: skip

_DELETE_RECORDS = ApiSchema(
    key=DELETE_RECORDS, name="DeleteRecords",
    advertised_min=0, served_min=0, served_max=2, flexible_from=2,
    request=parse_fields("""
        topics []struct
            name string
            partitions []struct
                index int32, offset int64
        timeout_ms int32
    """),
    response=parse_fields("""
        throttle_time_ms int32 =0
        topics []struct
            name string
            partitions []struct
                index int32, low_watermark int64 =-1, error_code int16
    """),
)  # fmt: skip

_INIT_PRODUCER_ID = ApiSchema(
    key=INIT_PRODUCER_ID, name="InitProducerId",
    advertised_min=0, served_min=0, served_max=4, flexible_from=2,
    request=parse_fields("""
        transactional_id string ?, transaction_timeout_ms int32
        producer_id int64 3+ =-1, producer_epoch int16 3+ =-1
    """),
    response=parse_fields("""
        throttle_time_ms int32 =0, error_code int16
        producer_id int64 =-1, producer_epoch int16
    """),
)  # fmt: skip

_OFFSET_FOR_LEADER_EPOCH = ApiSchema(
    key=OFFSET_FOR_LEADER_EPOCH, name="OffsetForLeaderEpoch",
    advertised_min=2, served_min=2, served_max=4, flexible_from=4,
    request=parse_fields("""
        replica_id int32 3+ =-2
        topics []struct
            name string
            partitions []struct
                index int32, current_leader_epoch int32 =-1, leader_epoch int32
    """),
    response=parse_fields("""
        throttle_time_ms int32 =0
        topics []struct
            name string
            partitions []struct
                error_code int16, index int32, leader_epoch int32 =-1, end_offset int64 =-1
    """),
)  # fmt: skip

APIS: dict[int, ApiSchema] = {
    api.key: api
    for api in (
        _PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA,
        _FIND_COORDINATOR, _API_VERSIONS, _DELETE_RECORDS, _INIT_PRODUCER_ID,
        _OFFSET_FOR_LEADER_EPOCH,
    )
}  # fmt: skip
"""Every API that is served, by its key, in ascending order."""
