"""A ConfigMap of the analysis becomes the status, one Event and metrics; anything else nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline_analysis import config_map, run_summary
from strandline_operator import analysis, kinds
from strandline_operator.actions import Action, ApplyStatus, PostEvent
from strandline_operator.analysis import SUMMARY_BYTES_MAX, SummaryBroken, read_summary
from strandline_operator.operator_metrics import OperatorMetrics
from strandline_operator.plan import plan_cluster
from tests.chart import rendered
from tests.chart.analysis_cases import ANALYSIS_STATUS

from .samples import CONFIG, NOW, Manifest, World, cluster, made

STATUS: dict[str, Any] = ANALYSIS_STATUS["analysis"]
GONE = object()


def summary(**changed: Any) -> dict[str, Any]:
    """Return what the Job writes; a field that is GONE is left out."""
    whole = {"version": 1, "cluster": "default", **STATUS, **changed}
    return {key: value for key, value in whole.items() if value is not GONE}


def told(text: str | None = None, *, name: str = "a-summary", of: str = "default") -> Manifest:
    """Return a ConfigMap about a cluster; without a text as the chart makes it."""
    whole = made(kinds.CONFIG_MAP, name, labels={analysis.ANALYSIS_OF_LABEL: of})
    return whole if text is None else {**whole, "data": {"summary.json": text}}


def plan(world: World) -> list[Action]:
    found = world.cache.cluster("default")
    assert found is not None
    return plan_cluster(*found, CONFIG, now=NOW)


def shown(world: World) -> Any:
    return world.get(kinds.CLUSTER, "default")["status"].get("analysis")


def events(actions: list[Action]) -> list[PostEvent]:
    found = [each for each in actions if isinstance(each, PostEvent)]
    return [each for each in found if each.reason == analysis.FOUND_INCIDENTS]


def settled(*objects: Manifest) -> World:
    world = World(cluster(), *objects)
    world.perform(plan(world))
    world.perform(plan(world))
    assert plan(world) == []
    return world


def test_a_run_is_shown_and_told_once() -> None:
    world = settled(told())
    assert shown(world) is None
    world.put(told(json.dumps(summary())))
    actions = plan(world)
    (event,) = events(actions)
    assert (event.once, event.is_warning) == (STATUS["endedAt"], True)
    assert event.message == (
        "from 2026-11-25T14:00:00Z to 2026-11-25T15:00:00Z: 1 incident; "
        "the widest: broker 1 is at the root"
    )
    assert isinstance(actions[-1], ApplyStatus)
    # The same plan once more, as after a kill, posts the same Event.
    assert events(plan(world)) == [event]
    world.perform(actions)
    assert shown(world) == STATUS
    assert plan(world) == []


def test_a_run_without_incidents_is_shown_and_not_told() -> None:
    world = settled(told())
    quiet = summary(incidents=0, topIncidents=[])
    world.put(told(json.dumps(quiet)))
    assert events(plan(world)) == []
    world.perform(plan(world))
    assert shown(world)["incidents"] == 0


def test_the_same_run_written_again_is_no_news_and_the_next_is() -> None:
    world = settled(told(json.dumps(summary())))
    world.put(told(json.dumps(summary(later="unknown here"))))
    assert plan(world) == []
    world.put(told(json.dumps(summary(endedAt="2026-11-25T16:00:07Z"))))
    (event,) = events(plan(world))
    assert event.once == "2026-11-25T16:00:07Z"


def test_of_several_config_maps_the_run_that_ended_last_counts() -> None:
    earlier = json.dumps(summary(endedAt="2026-11-25T13:00:00Z", incidents=9))
    world = settled(told(json.dumps(summary())), told(earlier, name="b-summary"))
    assert shown(world) == STATUS


def test_a_config_map_about_another_cluster_or_without_the_label_is_no_summary() -> None:
    unlabelled = made(kinds.CONFIG_MAP, "b-summary", labels={"strandline.dev/cluster": "default"})
    text = json.dumps(summary())
    others = [told(text, of="other"), {**unlabelled, "data": {"summary.json": text}}]
    assert shown(settled(*others)) is None


@pytest.mark.parametrize("text", ["", "garbage", json.dumps(summary(version=2))])
def test_a_broken_summary_changes_nothing(text: str) -> None:
    world = settled(told(json.dumps(summary())))
    world.put(told(text))
    assert plan(world) == []
    assert shown(world) == STATUS


def test_the_field_goes_with_the_last_config_map() -> None:
    world = settled(told(json.dumps(summary())))
    world.remove(kinds.CONFIG_MAP, "a-summary")
    (action,) = plan(world)
    assert isinstance(action, ApplyStatus)
    assert "analysis" not in action.body["status"]
    world.perform([action])
    assert plan(world) == []


def test_a_summary_is_no_config_map_of_brokers() -> None:
    named = told(json.dumps(summary()), name="default-config-summary")
    assert plan(settled(named)) == []


INCIDENT = {"startedAt": "2026-11-25T14:14:35Z", "sentence": "s"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"version": GONE}, "version is no whole number"),
        ({"version": 2}, "of version 2, known is 1"),
        ({"cluster": "other"}, "of another cluster"),
        ({"cluster": GONE}, "of another cluster"),
        ({"endedAt": "yesterday"}, "endedAt is no time"),
        ({"endedAt": "2026-13-45T00:00:00Z"}, "endedAt: "),
        ({"windowStart": 1790000000}, "windowStart is no time"),
        ({"windowEnd": "2026-11-25T14:00:00Z"}, "windowEnd is not after windowStart"),
        ({"coveragePercent": 101}, "coveragePercent is no whole number from 0 to 100"),
        ({"coveragePercent": float("nan")}, "coveragePercent is no"),
        ({"incidents": -1}, "incidents is no"),
        ({"incidents": True}, "incidents is no"),
        ({"incidents": "3"}, "incidents is no"),
        ({"elections": 1e300}, "elections is no"),
        ({"elections": 1 << 53}, "elections is no"),
        ({"recordsAtRisk": GONE}, "recordsAtRisk is no"),
        ({"topIncidents": GONE}, "topIncidents is no list"),
        ({"topIncidents": {"a": 1}}, "topIncidents is no list"),
        ({"topIncidents": [INCIDENT] * 6}, "topIncidents is no list of 5 at most"),
        ({"topIncidents": ["broker 1"]}, "an incident is no JSON object"),
        ({"topIncidents": [{**INCIDENT, "rootBroker": 100}]}, "rootBroker is no"),
        ({"topIncidents": [{**INCIDENT, "startedAt": None}]}, "startedAt is no time"),
        ({"topIncidents": [{**INCIDENT, "sentence": ""}]}, "sentence is no line"),
        ({"topIncidents": [{**INCIDENT, "sentence": "s" * 301}]}, "sentence is no line"),
        ({"topIncidents": [{**INCIDENT, "sentence": "a\nb"}]}, "sentence is no line"),
        ({"topIncidents": [{**INCIDENT, "sentence": "\x1b[2J"}]}, "sentence is no line"),
        ({"topIncidents": [{**INCIDENT, "sentence": 7}]}, "sentence is no line"),
    ],
)
def test_what_is_not_of_the_form_is_refused_with_its_name(
    changed: dict[str, Any], why: str
) -> None:
    with pytest.raises(SummaryBroken, match=why):
        read_summary(json.dumps(summary(**changed)), "default")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000,
        "9" * 5_000,
        '{"version": 1',
        "[]",
        '"text"',
        "\ud800",
        " " * (SUMMARY_BYTES_MAX + 1),
        json.dumps(summary(more="m" * SUMMARY_BYTES_MAX)),
    ],
)
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(SummaryBroken):
        read_summary(text, "default")


def test_a_root_that_does_not_stand_out_is_left_out() -> None:
    top = [{**INCIDENT, "rootBroker": None}, INCIDENT]
    read = read_summary(json.dumps(summary(topIncidents=top)), "default")
    assert read["topIncidents"] == [INCIDENT, INCIDENT]


def test_the_job_and_the_operator_agree() -> None:
    assert run_summary.FORM == analysis.FORM
    assert run_summary.TOP_INCIDENTS_MAX == analysis.TOP_INCIDENTS_MAX
    assert run_summary.SENTENCE_LENGTH_MAX == analysis.SENTENCE_LENGTH_MAX
    assert run_summary.SUMMARY_BYTES_MAX <= analysis.SUMMARY_BYTES_MAX
    assert config_map.KEY == analysis.SUMMARY_KEY


def text(world: World) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    whole = OperatorMetrics().text(
        is_ready=True, queue_length=0, conditions=(), analyses=world.cache.analyses()
    )
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(whole.decode())
        for sample in family.samples
        if sample.name.startswith("strandline_analysis_")
    }


def test_the_metrics_tell_what_the_status_shows() -> None:
    of = frozenset({("cluster", "default")})
    assert text(settled(told(json.dumps(summary())))) == {
        ("strandline_analysis_run_timestamp_seconds", of): 1795618807,
        ("strandline_analysis_window_seconds", of): 3600,
        ("strandline_analysis_coverage_ratio", of): 0.99,
        ("strandline_analysis_incidents", of): 1,
        ("strandline_analysis_elections", of): 3,
        ("strandline_analysis_isr_shrinks", of): 4,
        ("strandline_analysis_records_at_risk", of): 500,
        ("strandline_analysis_records_lost", of): 0,
        ("strandline_analysis_leaderless_seconds", of | {("bound", "low")}): 0.8,
        ("strandline_analysis_leaderless_seconds", of | {("bound", "high")}): 1.8,
    }
    assert text(settled(told())) == {}


def test_metrics_go_with_the_status_that_they_tell_of() -> None:
    metrics = OperatorMetrics()
    world = settled(told(json.dumps(summary())))
    for samples in (world.cache.analyses(), ()):
        whole = metrics.text(is_ready=True, queue_length=0, conditions=(), analyses=samples)
    assert b'cluster="default"' not in whole


@pytest.mark.processes
def test_the_definition_has_the_bounds_that_are_judged() -> None:
    status = rendered.crd_schemas()["BrokerCluster"]["properties"]["status"]
    fields = status["properties"][analysis.FIELD]["properties"]
    assert set(fields) == set(STATUS)
    incidents = fields["topIncidents"]
    assert incidents["maxItems"] == analysis.TOP_INCIDENTS_MAX
    of_one = incidents["items"]["properties"]
    assert of_one["sentence"]["maxLength"] == analysis.SENTENCE_LENGTH_MAX
    assert of_one["rootBroker"]["maximum"] == analysis.BROKER_ID_MAX
