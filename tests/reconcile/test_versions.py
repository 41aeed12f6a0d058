"""Which image brokers run: of the named version, else as before, whatever a new operator has."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from strandline_operator import kinds, resources, versions
from strandline_operator.actions import ApplyObject, EvictPod, PostEvent
from strandline_operator.operator_config import OperatorConfig
from strandline_operator.plan import plan_cluster
from strandline_operator.reading import read_cluster
from tests.chart.cases import COMPLETE
from tests.support.commands import REPOSITORY

from .samples import CONFIG, NOW, Manifest, World, cluster
from .test_conditions import REFUSAL, led
from .test_rolling import OLD, old_cluster, register, run

FIRST, SECOND, THIRD = "strandline/broker:1", "strandline/broker:2", "strandline/broker:3"
LATER = replace(
    CONFIG, broker_images={"0.2.0": SECOND, "0.3.0": THIRD, "0.1.0": FIRST}, broker_version="0.3.0"
)
"""An operator of two releases later, whose chart still has the images before."""
ALONE = replace(LATER, broker_images={"0.3.0": THIRD})
"""The same without the images before."""
TEMPLATE = REPOSITORY / "tests" / "reconcile" / "pod_template.yaml"


def pass_over(world: World, config: OperatorConfig = CONFIG) -> list[str]:
    """Plan, perform, and return the sentences of what was planned."""
    found = world.cache.cluster("default")
    assert found is not None
    plan = plan_cluster(*found, config, now=NOW)
    world.perform(plan)
    return [str(each) for each in plan]


def settled(config: OperatorConfig = CONFIG, **spec: str) -> World:
    """Return a cluster whose objects are all written by an operator."""
    world = World(cluster(**spec))
    pass_over(world, config)
    assert pass_over(world, config) == []
    return world


def name_version(world: World, version: str | None) -> None:
    """Set spec.version, or remove it."""
    found = world.get(kinds.CLUSTER, "default")
    found["spec"].pop("version", None)
    found["spec"] |= {"version": version} if version is not None else {}
    world.put(found)


def image(world: World) -> str:
    template = world.get(kinds.STATEFUL_SET, "default")["spec"]["template"]
    return str(template["spec"]["containers"][0]["image"])


def status(world: World) -> Manifest:
    found: Manifest = world.get(kinds.CLUSTER, "default")["status"]
    return found


def shown(world: World) -> tuple[str, str]:
    return status(world)["version"], status(world)["image"]


def condition(world: World, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition, and its sentence."""
    found = next(each for each in status(world)["conditions"] if each["type"] == kind)
    return f"{found['status']} {found['reason']}", found["message"]


def tells(world: World, number: int, version: str) -> None:
    """Let a broker register with a version."""
    register(world, number)
    found = world.get(kinds.BROKER, f"default-{number}")
    found["status"]["softwareVersion"] = version
    world.put(found)


# --- without the field -------------------------------------------------------------------


def test_a_new_cluster_gets_the_operators_version_and_keeps_it_under_later_operators() -> None:
    world = settled()
    assert (image(world), shown(world)) == (FIRST, ("0.1.0", FIRST))
    for later in (LATER, ALONE, replace(ALONE, broker_images={"0.3.0": THIRD, "0.1.0": "moved"})):
        assert pass_over(world, later) == []
    assert (image(world), shown(world)) == (FIRST, ("0.1.0", FIRST))


def test_a_cluster_of_an_operator_without_versions_keeps_its_image() -> None:
    world = settled()
    found = world.get(kinds.CLUSTER, "default")
    for field in ("version", "image"):
        del found["status"][field]
    world.put(found)
    assert pass_over(world, LATER) == ["write status of BrokerCluster default: BrokersNotReady"]
    assert (image(world), shown(world)) == (FIRST, ("0.1.0", FIRST))


def test_an_unknown_image_is_of_the_version_that_all_brokers_told() -> None:
    world = settled(replace(CONFIG, broker_images={"0.1.0": "elsewhere/broker"}))
    found = world.get(kinds.CLUSTER, "default")
    for field in ("version", "image"):
        del found["status"][field]
    world.put(found)
    for number in range(3):
        tells(world, number, "0.2.0")
    pass_over(world, ALONE)
    assert (image(world), shown(world)) == ("elsewhere/broker", ("0.2.0", "elsewhere/broker"))
    tells(world, 0, "0.1.0")
    found = world.get(kinds.CLUSTER, "default")
    del found["status"]["version"]
    world.put(found)
    pass_over(world, ALONE)
    assert "version" not in status(world)


def test_a_stateful_set_that_is_made_again_has_the_image_that_the_status_shows() -> None:
    world = settled()
    world.remove(kinds.STATEFUL_SET, "default")
    assert "apply StatefulSet default: it is missing" in pass_over(world, LATER)
    assert image(world) == FIRST


def test_an_image_that_somebody_else_wrote_is_taken_back() -> None:
    world = settled()
    found = world.get(kinds.STATEFUL_SET, "default")
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    world.put(found)
    assert pass_over(world) == ["apply StatefulSet default: it is changed"]
    assert image(world) == FIRST


# --- with the field ----------------------------------------------------------------------


def test_the_field_changes_the_image_and_back_and_without_it_the_image_stays() -> None:
    world = settled()
    for version, wanted, before in (("0.2.0", SECOND, FIRST), ("0.1.0", FIRST, SECOND)):
        name_version(world, version)
        done = pass_over(world)
        assert done[0] == "apply StatefulSet default: it is changed"
        told = f"brokers get version {version}, image {wanted} instead of version "
        assert [each for each in done if told in each and f"image {before}, one after" in each]
        assert (image(world), shown(world)) == (wanted, (version, wanted))
        assert pass_over(world) == []
    name_version(world, "0.2.0")
    pass_over(world)
    name_version(world, None)
    assert "apply StatefulSet default: it is changed" not in pass_over(world)
    assert (image(world), shown(world)) == (SECOND, ("0.2.0", SECOND))


def test_the_field_of_a_new_cluster_chooses_among_the_versions() -> None:
    world = settled(version="0.2.0")
    assert (image(world), shown(world)) == (SECOND, ("0.2.0", SECOND))


def test_a_named_version_follows_its_image() -> None:
    world = settled(version="0.1.0")
    moved = replace(CONFIG, broker_images={"0.1.0": "mirror/broker:1"})
    assert pass_over(world, moved)[0] == "apply StatefulSet default: it is changed"
    assert shown(world) == ("0.1.0", "mirror/broker:1")


def test_a_named_version_that_a_later_operator_does_not_have_goes_on() -> None:
    world = settled(version="0.1.0")
    assert pass_over(world, ALONE) == []
    assert condition(world, "Reconciled")[0] == "True AllApplied"


def test_two_clusters_of_two_versions_stand_side_by_side() -> None:
    older, newer = settled(LATER, version="0.2.0"), settled(LATER)
    assert (image(older), image(newer)) == (SECOND, THIRD)


def test_a_changed_version_restarts_brokers_one_by_one() -> None:
    world = old_cluster()
    for number in range(3):
        run(world, number, "r1")
    pass_over(world)
    name_version(world, "0.2.0")
    first = pass_over(world)
    assert not [each for each in first if "evict" in each]
    assert condition(world, "Rolling")[0] == "Unknown RevisionUnknown"
    found = world.get(kinds.STATEFUL_SET, "default")
    new = {"readyReplicas": 3, "updateRevision": "r2", "observedGeneration": 1}
    world.put({**found, "status": new})
    plan = planned(world)
    assert [each.pod.name for each in plan if isinstance(each, EvictPod)] == ["default-1"]


def planned(world: World, config: OperatorConfig = CONFIG) -> list[object]:
    found = world.cache.cluster("default")
    assert found is not None
    return list(plan_cluster(*found, config, now=NOW))


# --- what is refused ---------------------------------------------------------------------


def test_an_unknown_version_is_told_and_the_cluster_is_kept_whole_without_a_restart() -> None:
    world = old_cluster()
    pass_over(world)
    name_version(world, "0.9.0")
    world.remove(kinds.SERVICE, "default-bootstrap")
    plan = planned(world)
    assert [each.body["kind"] for each in plan if isinstance(each, ApplyObject)] == ["Service"]
    assert not [each for each in plan if isinstance(each, EvictPod)]
    told = [each for each in plan if isinstance(each, PostEvent)]
    assert [each.reason for each in told] == ["UnknownVersion"]
    pass_over(world)
    stalled, message = condition(world, "Stalled")
    assert stalled == "True UnknownVersion"
    assert condition(world, "Ready")[0] == "False UnknownVersion"
    assert message == (
        "spec.version is 0.9.0, but this operator has images of versions 0.1.0, 0.2.0 only; name "
        "one of these, or add it to broker.versions of the chart. Meanwhile the cluster keeps "
        f"version 0.1.0, image {FIRST}, and no broker restarts"
    )
    assert condition(world, "Rolling")[0] == "Unknown NotReconciled"
    assert (image(world), shown(world)) == (FIRST, ("0.1.0", FIRST))
    name_version(world, "0.1.0")
    pass_over(world)
    assert condition(world, "Reconciled")[0] == "True AllApplied"


def test_a_new_cluster_of_an_unknown_version_gets_nothing() -> None:
    world = World(cluster(version="0.9.0"))
    assert [each for each in pass_over(world) if each.startswith("apply")] == []
    assert condition(world, "Ready")[0] == "False UnknownVersion"
    assert "image" not in status(world)
    assert "Meanwhile" not in condition(world, "Ready")[1]
    name_version(world, "0.2.0")
    pass_over(world)
    assert image(world) == SECOND


@pytest.mark.parametrize(("before", "after"), [("0.1.0", "0.3.0"), ("0.3.0", "0.1.0")])
def test_a_step_over_a_release_is_refused_and_release_by_release_it_works(
    before: str, after: str
) -> None:
    world = settled(LATER, version=before)
    kept = image(world)
    name_version(world, after)
    pass_over(world, LATER)
    reason, message = condition(world, "Stalled")
    assert (reason, image(world)) == ("True VersionTooFar", kept)
    assert f"spec.version is {after}, but brokers of {before} are there" in message
    for version in ("0.2.0", after):
        name_version(world, version)
        pass_over(world, LATER)
        assert shown(world) == (version, LATER.broker_images[version])


def test_a_broker_that_did_not_restart_yet_counts() -> None:
    world = settled(LATER, version="0.2.0")
    tells(world, 2, "0.1.0")
    name_version(world, "0.3.0")
    pass_over(world, LATER)
    assert "brokers of 0.1.0 are there" in condition(world, "Stalled")[1]
    name_version(world, "0.2.0")
    pass_over(world, LATER)
    tells(world, 2, "0.2.0")
    name_version(world, "0.3.0")
    pass_over(world, LATER)
    assert shown(world) == ("0.3.0", THIRD)


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("0.1.0", "0.1.7", True),
        ("0.1.0-rc1", "0.2.0", True),
        ("0.1.9", "0.3.0", False),
        ("0.9.0", "0.10.0", True),
        ("0.12.1", "1.0.0", True),
        ("0.12.1", "1.1.0", False),
        ("1.4.0", "3.0.0", False),
        ("", "0.3.0", True),
        ("unreadable", "0.3.0", True),
    ],
)
def test_neighbouring_releases_may_meet(one: str, other: str, *, may: bool) -> None:
    config = replace(CONFIG, broker_images={one: FIRST, other: THIRD})
    for before, after in ((one, other), (other, one)):
        shows = {"status": {"version": before, "image": "i"}}
        found = World({**cluster(version=after), **shows}).cache.cluster("default")
        assert found is not None
        assert (versions.choose(*found, config).refusal is None) is may


# --- what is shown -----------------------------------------------------------------------


def test_the_status_shows_what_each_broker_runs() -> None:
    world = old_cluster(led(0, isr=[0, 1, 2]))
    for number, version in ((0, "0.1.0"), (2, "0.2.0")):
        tells(world, number, version)
        run(world, number, OLD)
    pass_over(world)
    rows = {row["id"]: row.get("version") for row in status(world)["brokers"]}
    assert rows == {0: "0.1.0", 1: None, 2: "0.2.0"}


def test_a_version_that_is_not_written_is_not_shown() -> None:
    world = settled()
    name_version(world, "0.2.0")
    found = world.cache.cluster("default")
    assert found is not None
    world.perform(plan_cluster(*found, CONFIG, now=NOW, refusal=REFUSAL))
    assert shown(world) == ("0.1.0", FIRST)


def test_the_pods_template_is_that_of_the_operator_before() -> None:
    """A template that differs restarts the brokers of every cluster with its operator's upgrade.

    The name of the ConfigMap is a digest of the brokers' file, so that counts, too. Whoever changes
    the template writes the file anew, and says so in CHANGELOG.md.
    """
    config = COMPLETE["BrokerCluster"]["spec"]["config"]
    given = replace(read_cluster(cluster(config=config)), image=FIRST, spread_nodes="Required")
    pods = resources.objects_of(given, CONFIG, has_topics=True)[-1]
    assert pods["spec"]["template"] == yaml.safe_load(TEMPLATE.read_text())
