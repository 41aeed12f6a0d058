"""`strandline status` says what is amiss in the words of the conditions, each reason once."""

from __future__ import annotations

from typing import Any

from strandline_cli.why_not import why_not, why_not_all


def cluster(*conditions: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "kind": "BrokerCluster",
        "metadata": {"name": "default"},
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": reason, "message": f"so it is: {kind}"}
                for kind, status, reason in conditions
            ]
        },
    }


def test_a_healthy_object_or_one_without_a_status_has_nothing_to_say() -> None:
    healthy = cluster(("Ready", "True", "AllBrokersReady"), ("SpreadMet", "Unknown", "NoPods"))
    new = {"kind": "BrokerCluster", "metadata": {"name": "new"}}
    assert why_not_all([healthy, new]) == []


def test_each_reason_is_told_once_in_the_words_of_its_condition() -> None:
    found = cluster(
        ("Ready", "False", "UnderMinIsr"),
        ("MinIsrMet", "False", "UnderMinIsr"),
        ("DisruptionAllowed", "False", "WouldBreakMinIsr"),
        ("Stalled", "True", "UnderMinIsr"),
        ("VolumesFull", "True", "ClientsRefused"),
    )
    assert why_not(found) == [
        "BrokerCluster default: UnderMinIsr: so it is: Ready",
        "BrokerCluster default: WouldBreakMinIsr: so it is: DisruptionAllowed",
        "BrokerCluster default: ClientsRefused: so it is: VolumesFull",
    ]


def test_a_roll_is_told_while_it_lasts_and_not_once_it_is_done() -> None:
    done = cluster(("Ready", "True", "AllBrokersReady"), ("Rolling", "False", "RollingDone"))
    assert why_not(done) == []
    waits = cluster(("Rolling", "True", "WaitingForPod"), ("VolumesTooSmall", "True", "Growing"))
    assert why_not(waits) == [
        "BrokerCluster default: WaitingForPod: so it is: Rolling",
        "BrokerCluster default: Growing: so it is: VolumesTooSmall",
    ]
