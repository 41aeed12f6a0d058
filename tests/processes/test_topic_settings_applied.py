"""A topic's status says which brokers work with its settings: real brokers, a real operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import strandline_objects as objects
from tests.support.attended_group import AttendedGroup
from tests.support.broker_group import FORMED_LIMIT_MS
from tests.support.control_plane import ControlPlane

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

BROKERS = [0, 1, 2]


@pytest.fixture
def attended(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[AttendedGroup]:
    """Provide an operator and three brokers."""
    made = AttendedGroup(control_plane, namespace, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def set_retention(attended: AttendedGroup, milliseconds: int) -> None:
    patch = json.dumps({"spec": {"config": {"retentionMs": milliseconds}}})
    attended.kubectl("patch", "rtopic", "orders", "--type=merge", "-p", patch)


def wait_condition(attended: AttendedGroup, wanted: str, message: str, applied: list[int]) -> None:
    """Wait for ConfigApplied of the topic's present spec, and for the brokers of its status."""

    def is_shown() -> bool:
        found = attended.group.get("replicatedtopics", "orders")
        held = {each["type"]: each for each in found["status"]["conditions"]}["ConfigApplied"]
        assert held["observedGeneration"] == found["metadata"]["generation"]
        assert f"{held['status']} {held['reason']}" == wanted, held
        assert message in held["message"], held
        assert found["status"]["appliedConfig"]["brokers"] == applied
        return True

    attended.wait_for(is_shown, f"ConfigApplied {wanted} {applied}", FORMED_LIMIT_MS)


def test_the_status_names_a_broker_that_is_away_until_it_is_back_with_the_settings(
    attended: AttendedGroup,
) -> None:
    attended.create_topic("orders")
    wait_condition(attended, "True Applied", "all 3 brokers", BROKERS)

    set_retention(attended, 7_200_000)
    wait_condition(attended, "True Applied", "all 3 brokers", BROKERS)

    record = attended.group.get("brokerclusters", objects.CLUSTER)["status"]["controller"]
    away = next(each for each in BROKERS if each != record["brokerId"])
    present = [each for each in BROKERS if each != away]
    attended.group.brokers[away].kill()
    set_retention(attended, 3_600_000)
    wait_condition(attended, "False NotApplied", f": broker {away};", present)

    attended.group.brokers[away].start()
    attended.group.wait_ready(attended.group.brokers[away])
    wait_condition(attended, "True Applied", "all 3 brokers", BROKERS)
