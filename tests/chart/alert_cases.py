"""For each alert a story in which it fires, and one beside it in which it must not.

Series have the labels that a PodMonitor gives, and a sample each 30 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LABELS = 'namespace="n",cluster="c",container="broker",endpoint="http",job="strandline"'
PODS = ("c-broker-0", "c-broker-1")


def of(name: str, *labels: str, pod: str = PODS[0]) -> str:
    """Return a broker's series."""
    of_pod = f'pod="{pod}"'
    return f"{name}{{{','.join((LABELS, of_pod, *labels))}}}"


def of_operator(name: str, *labels: str) -> str:
    """Return a series of the operator."""
    base = ('namespace="n"', 'pod="o"', 'container="operator"', 'job="strandline-operator"')
    return f"{name}{{{','.join((*base, *labels))}}}"


def condition(kind: str, type_: str, reason: str) -> str:
    """Return the series of an object's condition."""
    labels = (f'kind="{kind}"', 'name="x"', f'condition="{type_}"', f'reason="{reason}"')
    return of_operator("strandline_operator_condition", *labels)


def steady(value: float) -> str:
    """Return samples of one value for two hours."""
    return f"{value}+0x240"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCase:
    """Series and samples of both stories, and labels of the alert, which fires by `at`."""

    alert: str
    fires: Mapping[str, str]
    quiet: Mapping[str, str]
    labels: Mapping[str, str]
    at: str = "10m"


CLUSTER = {"namespace": "n", "cluster": "c"}
PARTITION = {**CLUSTER, "topic": "t", "partition": "0"}
OF_PARTITION = ('topic="t"', 'partition="0"')
BROKER = {
    **CLUSTER,
    "pod": PODS[0],
    "container": "broker",
    "endpoint": "http",
    "job": "strandline",
}
ACTIVE = "strandline_controller_active"
EPOCH = "strandline_controller_epoch"
BELOW = of("strandline_truncations_below_high_watermark_total", *OF_PARTITION)


def gauge_case(
    alert: str, series: str, labels: Mapping[str, str], *, at: str = "10m", fires: float = 1
) -> AlertCase:
    """Return the case of a gauge that must be 0, or of a condition's."""
    return AlertCase(
        alert=alert,
        fires={series: steady(fires)},
        quiet={series: steady(0)},
        labels=labels,
        at=at,
    )


def labels_of(kind: str, type_: str, reason: str) -> dict[str, str]:
    """Return the labels of the series of an object's condition."""
    labels = {"kind": kind, "name": "x", "condition": type_, "reason": reason}
    labels |= {"namespace": "n", "pod": "o", "container": "operator"}
    return {**labels, "job": "strandline-operator"}


def condition_case(
    alert: str, kind: str, type_: str, reason: str, *, bad: int = 0, at: str = "10m"
) -> AlertCase:
    """Return the case of a condition whose bad value is given; its opposite is good."""
    series = condition(kind, type_, reason)
    return AlertCase(
        alert=alert,
        fires={series: steady(bad)},
        quiet={series: steady(1 - bad)},
        labels=labels_of(kind, type_, reason),
        at=at,
    )


def isr(isr_size: int, *, replicas: int) -> dict[str, str]:
    """Return what the leader of a partition with min ISR 2 shows."""
    sizes = {"isr_size": isr_size, "min_insync_replicas": 2, "replicas": replicas}
    return {
        of(f"strandline_partition_{name}", *OF_PARTITION): steady(value)
        for name, value in sizes.items()
    }


def buckets(name: str, fast: str, all_: str, *labels: str) -> dict[str, str]:
    """Return a histogram with a bucket of half a second and one of ten."""
    limits = {"0.5": fast, "10": all_, "+Inf": all_}
    return {of(name, *labels, f'le="{le}"'): values for le, values in limits.items()}


CASES = (
    gauge_case("StrandlineOfflinePartitions", of("strandline_offline_partitions"), CLUSTER),
    gauge_case("StrandlineUnderMinIsr", of("strandline_broker_under_min_isr_partitions"), CLUSTER),
    AlertCase(
        alert="StrandlineAtMinIsr",
        fires=isr(2, replicas=3),
        # All replicas are in sync: more cannot be had.
        quiet=isr(2, replicas=2),
        labels=CLUSTER,
    ),
    gauge_case(
        "StrandlineUnderReplicated",
        of("strandline_broker_under_replicated_partitions"),
        CLUSTER,
    ),
    AlertCase(
        alert="StrandlineIsrFlapping",
        fires={of("strandline_isr_shrinks_total", *OF_PARTITION): "0+1x240"},
        # A broker that restarted twice.
        quiet={of("strandline_isr_shrinks_total", *OF_PARTITION): "0 0 1 1 1 1 2+0x240"},
        labels=PARTITION,
    ),
    AlertCase(
        alert="StrandlineUncleanElection",
        fires={of("strandline_leader_elections_total", 'kind="unclean"'): "0 0 1+0x240"},
        quiet={of("strandline_leader_elections_total", 'kind="offline"'): "0 0 1+0x240"},
        labels=CLUSTER,
    ),
    AlertCase(
        alert="StrandlineCommittedRecordsCut",
        # The series begins with the event.
        fires={BELOW: "_x30 1+0x240"},
        quiet={BELOW: "0x30 0+0x240"},
        labels=PARTITION,
        at="20m",
    ),
    AlertCase(
        alert="StrandlineCommittedRecordsCut",
        fires={BELOW: "1x50 2+0x240"},
        # What happened an hour ago.
        quiet={BELOW: steady(2)},
        labels=PARTITION,
        at="30m",
    ),
    AlertCase(
        alert="StrandlineStrayTopics",
        fires={of("strandline_stray_topics", 'where="disk"'): steady(1)},
        quiet={of("strandline_stray_topics", 'where="trash"'): steady(1)},
        labels=CLUSTER,
        at="70m",
    ),
    AlertCase(
        alert="StrandlineNoActiveController",
        fires={of(ACTIVE): steady(0), of(ACTIVE, pod=PODS[1]): steady(0)},
        # One scrape between two controllers.
        quiet={of(ACTIVE): "1x18 0x240", of(ACTIVE, pod=PODS[1]): "0x19 1x240"},
        labels=CLUSTER,
    ),
    AlertCase(
        alert="StrandlineTwoControllersInOneEpoch",
        fires={
            **{of(ACTIVE, pod=pod): steady(1) for pod in PODS},
            **{of(EPOCH, pod=pod): steady(7) for pod in PODS},
        },
        quiet={
            **{of(ACTIVE, pod=pod): steady(1) for pod in PODS},
            of(EPOCH): steady(6),
            of(EPOCH, pod=PODS[1]): steady(7),
        },
        labels={**CLUSTER, "epoch": "7"},
    ),
    AlertCase(
        alert="StrandlineMoreThanOneController",
        fires={of(ACTIVE, pod=pod): steady(1) for pod in PODS},
        quiet={of(ACTIVE): steady(1), of(ACTIVE, pod=PODS[1]): steady(0)},
        labels=CLUSTER,
    ),
    AlertCase(
        alert="StrandlineElectionsSlow",
        fires=buckets("strandline_failover_seconds_bucket", "0+0x240", "0+1x240", 'phase="elect"'),
        quiet=buckets("strandline_failover_seconds_bucket", "0+1x240", "0+1x240", 'phase="elect"'),
        labels=CLUSTER,
    ),
    AlertCase(
        alert="StrandlineLeaseRenewSlow",
        fires=buckets("strandline_lease_renew_seconds_bucket", "0+0x240", "0+1x240"),
        quiet=buckets("strandline_lease_renew_seconds_bucket", "0+1x240", "0+1x240"),
        labels={**CLUSTER, "pod": PODS[0]},
        at="20m",
    ),
    AlertCase(
        alert="StrandlineBrokerDown",
        fires={of("up"): steady(0)},
        quiet={of("up"): steady(1)},
        labels=BROKER,
    ),
    AlertCase(
        alert="StrandlineBrokerRestarts",
        fires={
            of("strandline_broker_start_timestamp_seconds"): "1 2 3 4 4 4 4 4 4 4 4 4 4 4 4+0x240"
        },
        quiet={
            of("strandline_broker_start_timestamp_seconds"): "1 2 3 3 3 3 3 3 3 3 3 3 3 3 3+0x240"
        },
        labels=BROKER,
        at="5m",
    ),
    gauge_case("StrandlineBrokerFenced", of("strandline_broker_fenced"), BROKER),
    AlertCase(
        alert="StrandlineLogDirectoryFailed",
        # One scrape saw it before the process ended.
        fires={of("strandline_log_directory_failed"): "0x17 1 0+0x240"},
        quiet={of("strandline_log_directory_failed"): steady(0)},
        labels=BROKER,
    ),
    AlertCase(
        alert="StrandlineInvariantViolated",
        fires={of("strandline_invariant_violations_total", 'rule="r"'): "_x17 1 _x240"},
        quiet={of("strandline_invariant_violations_total", 'rule="r"'): steady(0)},
        labels={**CLUSTER, "pod": PODS[0], "rule": "r"},
    ),
    gauge_case("StrandlineVolumeFull", of("strandline_log_directory_full"), BROKER),
    AlertCase(
        alert="StrandlineVolumeFillsSoon",
        fires={of("strandline_log_directory_fill_seconds"): steady(14_000)},
        quiet={
            of("strandline_log_directory_fill_seconds"): steady(15_000),
            of("strandline_log_directory_fill_seconds", pod=PODS[1]): "+Inf+0x240",
        },
        labels=BROKER,
        at="15m",
    ),
    AlertCase(
        alert="StrandlineOperatorDown",
        fires={of_operator("up"): steady(0)},
        quiet={of_operator("up"): steady(1)},
        labels={},
    ),
    AlertCase(
        alert="StrandlineOperatorDown",
        fires={of("up"): steady(1)},
        quiet={of_operator("up"): steady(1)},
        labels={},
    ),
    AlertCase(
        alert="StrandlineOperatorFails",
        fires={
            of_operator(
                "strandline_operator_reconciles_total", 'kind="ReplicatedTopic"', 'result="failed"'
            ): "0+1x240"
        },
        quiet={
            of_operator(
                "strandline_operator_reconciles_total", 'kind="ReplicatedTopic"', 'result="failed"'
            ): "0 0 1+0x240",
            of_operator(
                "strandline_operator_reconciles_total", 'kind="ReplicatedTopic"', 'result="done"'
            ): "0+1x240",
        },
        labels={"namespace": "n", "pod": "o", "kind": "ReplicatedTopic"},
        at="30m",
    ),
    condition_case("StrandlineClusterNotReady", "BrokerCluster", "Ready", "NoController"),
    condition_case("StrandlineTopicNotReady", "ReplicatedTopic", "Ready", "UnderMinIsr", bad=-1),
    condition_case("StrandlineStateLost", "ReplicatedTopic", "Ready", "StateLost"),
    condition_case(
        *("StrandlineBrokerFailed", "BrokerCluster", "BrokerFailed", "LogDirectoryFailed"), bad=1
    ),
    condition_case("StrandlineNeedsAPerson", "ReplicatedTopic", "Stalled", "Forbidden", bad=1),
    condition_case(
        *("StrandlineDrainBlocked", "BrokerCluster", "DisruptionAllowed", "WouldBreakMinIsr"),
        at="40m",
    ),
    AlertCase(
        alert="StrandlineRollStuck",
        fires={condition("BrokerCluster", "Rolling", "WaitingForInSync"): steady(1)},
        # A roll that goes on: an hour, and no reason stays for half of it.
        quiet={
            condition("BrokerCluster", "Rolling", "WaitingForPod"): "1x30 _x60 1x30 _x240",
            condition("BrokerCluster", "Rolling", "WaitingForInSync"): "_x31 1x30 _x240",
            condition("BrokerCluster", "Rolling", "RollingDone"): "_x150 0x240",
        },
        labels=labels_of("BrokerCluster", "Rolling", "WaitingForInSync"),
        at="40m",
    ),
)
