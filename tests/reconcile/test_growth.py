"""Larger volumes: which claims ask for more, when the StatefulSet goes, and what a status says."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.errors import StoreForbidden
from strandline_operator import kinds
from strandline_operator.actions import Action, GrowClaim, PostEvent, ReleasePods
from strandline_operator.conditions import Readiness
from strandline_operator.plan import plan_cluster
from strandline_operator.pod_settings import canonical_quantity, quantity_bytes
from strandline_operator.refusals import refusal_of

from .samples import CONFIG, NOW, Manifest, World, claim, cluster

GI = 1 << 30


def planned(world: World, refusal: Readiness | None = None) -> list[Action]:
    found = world.cache.cluster("default")
    assert found is not None
    return plan_cluster(*found, CONFIG, now=NOW, refusal=refusal)


def sentences(world: World, prefix: str = "") -> list[str]:
    return [text for text in map(str, planned(world)) if text.startswith(prefix)]


def steps(world: World) -> list[str]:
    """Return what the next plan does to claims and the StatefulSet."""
    kept = [each for each in planned(world) if isinstance(each, GrowClaim | ReleasePods)]
    return [str(each) for each in kept]


def settled(*objects: Manifest, size: str = "1Gi") -> World:
    """Return a cluster of this size whose objects are all written."""
    world = World(cluster(storage={"size": size}), *objects)
    for _ in range(3):
        world.perform(planned(world))
    return world


def grow(world: World, size: str) -> None:
    found = world.get(kinds.CLUSTER, "default")
    found["spec"]["storage"]["size"] = size
    world.put(found)


def status(world: World) -> Manifest:
    found: Manifest = world.get(kinds.CLUSTER, "default")["status"]
    return found


def too_small(world: World) -> tuple[str, str]:
    """Return reason and message of the condition, empty texts without it."""
    for each in status(world)["conditions"]:
        if each["type"] == "VolumesTooSmall":
            return each["reason"], each["message"]
    return "", ""


def template_of(world: World) -> str:
    template = world.get(kinds.STATEFUL_SET, "default")["spec"]["volumeClaimTemplates"][0]
    return str(template["spec"]["resources"]["requests"]["storage"])


def claims() -> list[Manifest]:
    return [claim(number) for number in range(3)]


def test_a_cluster_that_grows_asks_for_larger_claims_then_replaces_its_stateful_set() -> None:
    world = settled(*claims())
    assert steps(world) == []
    assert status(world)["storage"] == {"size": "1Gi"}
    assert too_small(world) == ("", "")
    grow(world, "2Gi")
    assert sentences(world)[:4] == [
        f"grow PersistentVolumeClaim data-default-{n} of StorageClass fast from 1Gi to 2Gi"
        for n in range(3)
    ] + ["replace StatefulSet default without its pods: its template asks for 1Gi of 2Gi"]
    world.perform(planned(world))
    assert too_small(world)[0] == "Growing"
    assert sentences(world)[0] == "apply StatefulSet default: it is missing"
    world.perform(planned(world))
    assert template_of(world) == "2Gi"
    assert steps(world) == []
    reason, message = too_small(world)
    assert reason == "Growing"
    assert "data-default-0 has 1Gi and asks for 2Gi" in message
    rows = [row["volume"] for row in status(world)["brokers"]]
    assert rows == [{"wantedBytes": 2 * GI, "bytes": GI}] * 3


def test_each_step_follows_from_what_is_there() -> None:
    world = settled(*claims())
    grow(world, "2Gi")
    for number in range(3):
        wanted = planned(world)
        assert str(wanted[0]).startswith(f"grow PersistentVolumeClaim data-default-{number}")
        world.perform(wanted[:1])
    assert [type(each) for each in planned(world)[:1]] == [ReleasePods]


def test_the_end_of_a_growth_is_an_event_and_a_resize_that_waits_is_named() -> None:
    world = settled(*claims())
    grow(world, "2Gi")
    for _ in range(2):
        world.perform(planned(world))
    waiting = {"type": "FileSystemResizePending", "status": "True", "message": "start a pod"}
    for number in range(3):
        grown = claim(number, "2Gi", "1Gi" if number == 1 else "2Gi")
        grown["status"]["conditions"] = [waiting] if number == 1 else []
        world.put(grown)
    assert sentences(world, "tell") == []
    world.perform(planned(world))
    assert too_small(world)[1] == (
        "spec.storage.size is 2Gi: data-default-1 has 1Gi and asks for 2Gi, "
        "FileSystemResizePending: start a pod"
    )
    world.put(claim(1, "2Gi", "2Gi"))
    done = "tell about BrokerCluster default: all volumes have at least spec.storage.size, which"
    assert sentences(world, "tell") == [f"{done} is 2Gi"]
    for each in planned(world):
        assert sentences(world, "tell") == [f"{done} is 2Gi"], "told until the Event is written"
        world.perform([each])
        if isinstance(each, PostEvent):
            break
    world.perform(planned(world))
    assert too_small(world) == ("", "")
    assert sentences(world) == []


def test_nothing_shrinks_and_nothing_of_others_is_touched() -> None:
    world = settled(claim(0, "4Gi", "4Gi"), claim(1), claim(7), size="1Gi")
    foreign = claim(2)
    foreign["metadata"]["labels"] = {"strandline.dev/cluster": "other"}
    unlabelled = claim(3)
    unlabelled["metadata"]["labels"] = {}
    for each in (foreign, unlabelled):
        world.put(each)
    grow(world, "2Gi")
    assert [text.split()[2] for text in steps(world) if "grow" in text] == ["data-default-1"]
    world.perform(planned(world))
    world.perform(planned(world))
    rows = [row.get("volume") for row in status(world)["brokers"]]
    assert rows[0] == {"wantedBytes": 4 * GI, "bytes": 4 * GI}
    assert rows[2] is None
    grow(world, "1Gi")
    assert steps(world) == []
    assert template_of(world) == "2Gi"


def test_claims_without_a_volume_and_those_that_go_are_waited_for() -> None:
    world = settled(claim(0, capacity=""), claim(1))
    going = claim(2)
    going["metadata"]["deletionTimestamp"] = NOW
    world.put(going)
    grow(world, "2Gi")
    assert [text.split()[2] for text in steps(world) if "grow" in text] == ["data-default-1"]
    world.perform(planned(world))
    assert "data-default-0 asks for 1Gi and has no volume yet" in too_small(world)[1]


def test_a_claim_grows_by_a_compare_and_swap_of_its_request_alone() -> None:
    world = settled(claim(0))
    grow(world, "2048Mi")
    (body,) = (each.body for each in planned(world) if isinstance(each, GrowClaim))
    assert body == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-default-0",
            "uid": "uid-data-default-0",
            "resourceVersion": "7",
        },
        "spec": {"resources": {"requests": {"storage": "2Gi"}}},
    }


def test_a_refused_growth_names_class_and_remedy_and_leaves_the_stateful_set() -> None:
    world = settled(*claims())
    grow(world, "2Gi")
    (action, *_) = (each for each in planned(world) if isinstance(each, GrowClaim))
    refused = refusal_of(action, StoreForbidden("only dynamically provisioned pvc"), 1)
    assert refused is not None
    assert refused.reason == "VolumesCannotGrow"
    for part in ("data-default-0", "StorageClass fast", "only dynamically", "back to 1Gi"):
        assert part in refused.message
    world.perform(planned(world, refused))
    shown = {each["type"]: each["reason"] for each in status(world)["conditions"]}
    assert shown["Reconciled"] == shown["Stalled"] == shown["Ready"] == "VolumesCannotGrow"
    reason, message = too_small(world)
    assert reason == "VolumesCannotGrow"
    assert message.endswith(f"has 1Gi and asks for 1Gi; {refused.message}")
    assert template_of(world) == "1Gi"
    grow(world, "1Gi")
    assert [text for text in sentences(world) if "tell" in text] == []
    world.perform(planned(world))
    assert too_small(world) == ("", "")


def test_what_else_changes_is_written_before_a_growth_that_may_be_refused() -> None:
    world = settled(*claims())
    found = world.get(kinds.CLUSTER, "default")
    found["spec"] |= {"storage": {"size": "2Gi"}, "resources": {"limits": {"memory": "2Gi"}}}
    world.put(found)
    assert sentences(world)[0] == "apply StatefulSet default: it is changed"
    world.perform(planned(world)[:1])
    assert template_of(world) == "1Gi"
    assert sentences(world)[0].startswith("grow ")


def test_growth_waits_for_no_broker() -> None:
    world = settled(*claims())
    assert status(world)["readyBrokers"] == 0
    grow(world, "2Gi")
    assert len(steps(world)) == 4


@pytest.mark.parametrize(
    ("quantity", "canonical", "size"),
    [
        ("1Gi", "1Gi", GI),
        ("1024Mi", "1Gi", GI),
        ("2048Ti", "2Pi", 2 << 50),
        ("1000M", "1G", 10**9),
        ("1500Gi", "1500Gi", 1500 * GI),
        ("1T", "1T", 10**12),
    ],
)
def test_a_size_is_read_and_written_as_the_api_server_does(
    quantity: str, canonical: str, size: int
) -> None:
    assert canonical_quantity(quantity) == canonical
    assert quantity_bytes(quantity) == quantity_bytes(canonical) == size


@pytest.mark.parametrize(
    ("quantity", "size"), [("1e9", 10**9), ("1.5Ki", 1536), ("1500m", 2), ("7", 7)]
)
def test_a_claim_of_others_may_have_any_form_of_a_size(quantity: str, size: Any) -> None:
    assert quantity_bytes(quantity) == size


def test_another_form_of_the_same_size_is_no_change() -> None:
    world = settled(*claims(), size="1024Mi")
    assert template_of(world) == "1Gi"
    assert sentences(world) == []
