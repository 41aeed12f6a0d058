"""The CEL rules of Partition: for each a write that only this rule refuses, and an accepted one."""

from __future__ import annotations

from typing import Final

from tests.chart.cases import GONE, OTHER_TOPIC_ID, Manifest, Rule

_CHANGED_STATUS: Final[list[Manifest]] = [
    {"status.isr": [0], "status.isrBrokerEpochs": [5]},
    {"status.elr": [], "status.elrBrokerEpochs": []},
    {"status.isrBrokerEpochs": [5, 7]},
    {"status.partitionEpoch": 6},
    {"status.partitionEpoch": 9},
    {"status.partitionEpoch": (1 << 31) - 1},
    {"status.reason": GONE},
]
_NEXT_EPOCH: Final = (
    "a changed status raises status.partitionEpoch by one, or by more for a partition with reason "
    "StateLost and no leader"
)
_FENCED: Final[Manifest] = {
    "status.leader": -1,
    "status.isr": [],
    "status.isrBrokerEpochs": [],
    "status.elr": [],
    "status.elrBrokerEpochs": [],
    "status.leaderEpoch": 40,
    "status.partitionEpoch": 70,
    "status.reason": "StateLost",
}
"""A partition whose object was lost begins above every epoch that its brokers know (ADR 0004)."""
_ODD_LEADER: Final[list[Manifest]] = [
    {"status.leader": 1},
    {"status.isr": [], "status.isrBrokerEpochs": []},
]
_NO_ELR: Final[Manifest] = {"status.elr": GONE, "status.elrBrokerEpochs": GONE}
_NOT_MOVING: Final[Manifest] = {"status.addingReplicas": GONE, "status.removingReplicas": GONE}
_WITHOUT_ONE: Final[Manifest] = {**_NO_ELR, **_NOT_MOVING, "status.replicas": [0, 2]}
PARTITION_RULES: Final = [
    Rule(
        kind="Partition",
        message="the status of a Partition cannot be removed, because its epochs would start again",
        on="status",
        refused={"status": GONE},
        accepted={"status.reason": GONE, "status.partitionEpoch": 8},
    ),
    Rule(
        kind="Partition",
        message="status.leaderEpoch never falls",
        on="status",
        refused={"status.leaderEpoch": 3, "status.partitionEpoch": 8},
        accepted={"status.leaderEpoch": 5, "status.partitionEpoch": 8},
    ),
    Rule(
        kind="Partition",
        message="status.controllerEpoch never falls",
        on="status",
        refused={"status.controllerEpoch": 4, "status.partitionEpoch": 8},
        accepted={"status.controllerEpoch": 6, "status.partitionEpoch": 8},
    ),
    *(
        Rule(
            kind="Partition",
            message=_NEXT_EPOCH,
            on="status",
            refused=changed,
            accepted={"status.partitionEpoch": accepted},
        )
        for changed in _CHANGED_STATUS
        for accepted in (7, 8)
    ),
    Rule(
        kind="Partition",
        message=_NEXT_EPOCH,
        on="status",
        refused={**_FENCED, "status.reason": "NoLiveIsrMember", "status.leaderEpoch": 5},
        accepted=_FENCED,
    ),
    Rule(
        kind="Partition",
        message="status.leaderEpoch rises by one at a time, but for a partition with reason "
        "StateLost and no leader",
        on="status",
        refused={"status.leaderEpoch": 6, "status.partitionEpoch": 8},
        accepted=_FENCED,
    ),
    Rule(
        kind="Partition",
        message="status.controllerEpoch rises by at most 1000000 at a time",
        on="status",
        refused={"status.controllerEpoch": 1_000_006, "status.partitionEpoch": 8},
        accepted={"status.controllerEpoch": 1_000_005, "status.partitionEpoch": 8},
    ),
    *(
        Rule(
            kind="Partition",
            message="the name of a Partition ends in '-' and spec.partition",
            on=on,
            refused=refused,
            accepted={"metadata.labels": {"a": "b"}},
        )
        for on, refused in (
            ("create", {"metadata.name": "orders-1"}),
            ("create", {"metadata.name": "orders0"}),
            ("create", {"metadata.name": "orders-00"}),
            ("create", {"metadata.name": "orders-10"}),
            ("spec", {"spec.partition": 1}),
        )
    ),
    *(
        Rule(
            kind="Partition",
            message="another leader needs a higher status.leaderEpoch",
            on="status",
            refused={"status.leader": other, "status.partitionEpoch": 8},
            accepted={
                "status.leader": other,
                "status.partitionEpoch": 8,
                "status.leaderEpoch": 5,
            },
        )
        for other in (2, -1)
    ),
    *(
        Rule(
            kind="Partition",
            message=f"spec.{field} cannot be changed",
            on="spec",
            refused={f"spec.{field}": changed},
            accepted={"metadata.labels": {"a": "b"}},
        )
        for field, changed in (
            ("topicId", OTHER_TOPIC_ID),
            ("topicName", "other"),
            ("recover", True),
        )
    ),
    Rule(
        kind="Partition",
        message="spec.replicas names a broker twice",
        on="create",
        refused={"spec.replicas": [0, 1, 0]},
        accepted={"spec.replicas": [2, 1, 0]},
    ),
    Rule(
        kind="Partition",
        message="fewer replicas need a higher status.leaderEpoch, which ends what the removed "
        "brokers do",
        on="status",
        refused={**_WITHOUT_ONE, "status.partitionEpoch": 8},
        accepted={**_WITHOUT_ONE, "status.partitionEpoch": 8, "status.leaderEpoch": 5},
    ),
    *(
        Rule(
            kind="Partition",
            message=f"status.{field} must hold only members of status.replicas, and not all of "
            "them",
            on="status",
            refused={f"status.{field}": wrong, "status.partitionEpoch": 8},
            accepted={f"status.{field}": [2], "status.partitionEpoch": 8},
        )
        for field in ("addingReplicas", "removingReplicas")
        for wrong in ([3], [0, 1, 2])
    ),
    *(
        Rule(
            kind="Partition",
            message="spec.rebuildWithout must not name all members of spec.replicas",
            on="spec",
            refused={"spec.rebuildWithout": wrong},
            accepted={"spec.rebuildWithout": [1, 3]},
        )
        for wrong in ([0, 1, 2], [0, 1, 2, 3])
    ),
    *(
        Rule(
            kind="Partition",
            message="status.leader must be -1 or a member of status.isr; an empty isr has no "
            "leader",
            on="status",
            refused={**changed, "status.partitionEpoch": 8, "status.leaderEpoch": 5},
            accepted={
                "status.isr": [],
                "status.isrBrokerEpochs": [],
                "status.leader": -1,
                "status.partitionEpoch": 8,
                "status.leaderEpoch": 5,
            },
        )
        for changed in _ODD_LEADER
    ),
    Rule(
        kind="Partition",
        message="status.isr must hold only members of status.replicas",
        on="status",
        refused={"status.isr": [0, 3], "status.partitionEpoch": 8},
        accepted={"status.isr": [0, 2], "status.partitionEpoch": 8},
    ),
    Rule(
        kind="Partition",
        message="status.isrBrokerEpochs must have one epoch for each member of status.isr",
        on="status",
        refused={"status.isrBrokerEpochs": [5], "status.partitionEpoch": 8},
        accepted={"status.isrBrokerEpochs": [5, 7], "status.partitionEpoch": 8},
    ),
    Rule(
        kind="Partition",
        message="status.replicas names a broker twice",
        on="status",
        refused={"status.replicas": [0, 1, 2, 2], "status.partitionEpoch": 8},
        accepted={"status.replicas": [0, 2, 1], "status.partitionEpoch": 8},
    ),
    Rule(
        kind="Partition",
        message="status.isr names a broker twice",
        on="status",
        refused={"status.isr": [0, 0], "status.partitionEpoch": 8},
        accepted={"status.isr": [2, 0], "status.partitionEpoch": 8},
    ),
    *(
        Rule(
            kind="Partition",
            message="status.elrBrokerEpochs must have one epoch for each member of status.elr",
            on="status",
            refused={"status.elrBrokerEpochs": epochs, "status.partitionEpoch": 8},
            accepted={**_NO_ELR, "status.partitionEpoch": 8},
        )
        for epochs in ([3, 3], GONE)
    ),
    *(
        Rule(
            kind="Partition",
            message="status.elr must hold only members of status.replicas that are not in "
            "status.isr",
            on="status",
            refused={"status.elr": [other], "status.partitionEpoch": 8},
            accepted={"status.elrBrokerEpochs": [4], "status.partitionEpoch": 8},
        )
        for other in (0, 3)
    ),
    Rule(
        kind="Partition",
        message="status.elr must be empty unless status.isr has fewer members than "
        "status.minInsyncReplicas",
        on="status",
        refused={"status.minInsyncReplicas": 2, "status.partitionEpoch": 8},
        accepted={
            "status.elr": [],
            "status.elrBrokerEpochs": [],
            "status.minInsyncReplicas": 2,
            "status.partitionEpoch": 8,
        },
    ),
    Rule(
        kind="Partition",
        message="status.elr names a broker twice",
        on="status",
        refused={
            "status.elr": [1, 1],
            "status.elrBrokerEpochs": [3, 3],
            "status.partitionEpoch": 8,
        },
        accepted={
            "status.isr": [0],
            "status.isrBrokerEpochs": [5],
            "status.elr": [2, 1],
            "status.elrBrokerEpochs": [6, 3],
            "status.partitionEpoch": 8,
        },
    ),
]
