"""The CEL rules of the external listener: for each a write that only it refuses, and another."""

from __future__ import annotations

from typing import Final

from tests.chart.cases import Rule

_ONCE = "each nodePort of spec.externalListener is given once"

LISTENER_RULES: Final = [
    Rule(
        kind="BrokerCluster",
        message="spec.externalListener.brokers names ids from 0 to spec.replicas - 1 only",
        on="spec",
        refused={"spec.externalListener.brokers": [{"broker": 3}]},
        accepted={"spec.externalListener.brokers": [{"broker": 2}]},
    ),
    Rule(
        kind="BrokerCluster",
        message=_ONCE,
        on="spec",
        refused={"spec.externalListener.brokers[].nodePort": 30_092},
        accepted={"spec.externalListener.brokers[].nodePort": 30_091},
    ),
    Rule(
        kind="BrokerCluster",
        message=_ONCE,
        on="spec",
        refused={
            "spec.externalListener.brokers": [
                {"broker": 0, "nodePort": 30_093},
                {"broker": 1, "nodePort": 30_093},
            ]
        },
        accepted={
            "spec.externalListener.brokers": [
                {"broker": 0, "nodePort": 30_093},
                {"broker": 1, "nodePort": 30_094},
            ]
        },
    ),
    Rule(
        kind="BrokerCluster",
        message="no two brokers of spec.externalListener have one advertisedHost and one "
        "advertisedPort",
        on="spec",
        refused={
            "spec.externalListener.brokers": [
                {"broker": 0, "advertisedPort": 9_093},
                {"broker": 1, "advertisedPort": 9_093},
            ]
        },
        accepted={
            "spec.externalListener.brokers": [
                {"broker": 0, "advertisedPort": 9_093},
                {"broker": 1, "advertisedPort": 9_093, "advertisedHost": "h"},
            ]
        },
    ),
    Rule(
        kind="BrokerCluster",
        message="spec.externalListener.advertisedHost of type LoadBalancer holds {broker}, because "
        "all brokers have the same port",
        on="spec",
        refused={
            "spec.externalListener.type": "LoadBalancer",
            "spec.externalListener.advertisedHost": "h",
        },
        accepted={"spec.externalListener.type": "LoadBalancer"},
    ),
]
