"""Stories of alerts on what goes on, but slower, later or oftener than it should."""

from __future__ import annotations

from tests.chart.alert_cases import (
    BROKER,
    CLUSTER,
    OF_PARTITION,
    PARTITION,
    PODS,
    AlertCase,
    of,
    of_operator,
    steady,
)

OF_REPLICA = (*OF_PARTITION, 'replica="2"')
END = of("strandline_partition_log_end_offset", *OF_PARTITION)
COPIED = of("strandline_replica_log_end_offset", *OF_REPLICA)
IS_MEMBER = of("strandline_partition_isr_member", *OF_REPLICA)
FOR_OTHERS, LEADERS = "strandline_broker_leaders_for_others", "strandline_broker_leaders"
WATCHED = of("strandline_watch_last_event_timestamp_seconds", 'resource="leases"')
CONFLICTS = 'resource="partitions"', 'code="409"'
OF_OPERATOR = {"namespace": "n", "pod": "o", "container": "operator", "job": "strandline-operator"}


def led(*for_others: int) -> dict[str, str]:
    """Return the gauges of brokers that lead ten partitions each."""
    return {of(LEADERS, pod=pod): steady(10) for pod in PODS} | {
        of(FOR_OTHERS, pod=pod): steady(count) for pod, count in zip(PODS, for_others, strict=True)
    }


SLOW_CASES = (
    AlertCase(
        alert="StrandlineReplicaLagGrows",
        fires={END: "0+300x240", COPIED: "0+200x240", IS_MEMBER: steady(0)},
        # It is far behind, and catches up.
        quiet={END: "100000+300x240", COPIED: "0+400x240", IS_MEMBER: steady(0)},
        labels={**PARTITION, "replica": "2"},
        at="30m",
    ),
    AlertCase(
        alert="StrandlineReplicaLagGrows",
        # Its broker is down.
        fires={END: "0+300x240", COPIED: steady(7), IS_MEMBER: steady(0)},
        # Producers send more and more, and a replica that keeps up lacks more and more.
        quiet={END: "0+300x240", COPIED: "0+299x240", IS_MEMBER: steady(1)},
        labels={**PARTITION, "replica": "2"},
        at="30m",
    ),
    AlertCase(
        alert="StrandlinePreferredLeaderImbalance",
        fires=led(5, 0),
        quiet=led(4, 0),
        labels=CLUSTER,
        at="40m",
    ),
    AlertCase(
        alert="StrandlineWatchStale",
        fires={WATCHED: "0+30x6 180+0x240"},
        # The broker is no longer the controller.
        quiet={WATCHED: "0+30x6 _x240"},
        labels={**BROKER, "resource": "leases"},
    ),
    AlertCase(
        alert="StrandlineWatchStale",
        fires={WATCHED: steady(0)},
        # Each watch ends after 20 s.
        quiet={WATCHED: "0+30x240"},
        labels={**BROKER, "resource": "leases"},
    ),
    AlertCase(
        alert="StrandlineConflicts",
        fires={of("strandline_kubernetes_requests_total", *CONFLICTS): "_x5 1+30x240"},
        # A leader whose ISR changes raced with an election.
        quiet={of("strandline_kubernetes_requests_total", *CONFLICTS): "0x5 40+0x240"},
        labels={"namespace": "n", "pod": PODS[0], "resource": "partitions"},
        at="30m",
    ),
    AlertCase(
        alert="StrandlineConflicts",
        fires={of_operator("strandline_kubernetes_requests_total", *CONFLICTS): "0+30x240"},
        quiet={
            of_operator(
                "strandline_kubernetes_requests_total", 'resource="partitions"', 'code="200"'
            ): "0+30x240"
        },
        labels={"namespace": "n", "pod": "o", "resource": "partitions"},
        at="30m",
    ),
    AlertCase(
        alert="StrandlineRecoverySlow",
        fires={of("strandline_log_recovery_remaining_logs"): "900-1x240"},
        # Five minutes.
        quiet={of("strandline_log_recovery_remaining_logs"): "900-100x9 0x240"},
        labels=BROKER,
        at="15m",
    ),
    AlertCase(
        alert="StrandlineOperatorNotReady",
        fires={of_operator("strandline_operator_ready"): steady(0)},
        quiet={of_operator("strandline_operator_ready"): steady(1)},
        labels=OF_OPERATOR,
    ),
)
