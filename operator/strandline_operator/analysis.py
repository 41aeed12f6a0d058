"""What the last run of the analysis found, from the ConfigMap that its Job writes (ADR 0066).

Pure; called by `observe`, `plan`, `status` and `reconcile`. The Job may write one ConfigMap and no
status, so its text is judged here before anything of it is shown: a text that is too long, or not
of the known form, counts as none. Kubernetes would take it for no more than a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from strandline.kube.api import Object

from .actions import PostEvent
from .observed import DesiredCluster, FoundObject, ObservedCluster

ANALYSIS_OF_LABEL: Final = "strandline.dev/analysis-of"
"""On a ConfigMap: the BrokerCluster that the summary in it is about."""
SUMMARY_KEY: Final = "summary.json"
SUMMARY_BYTES_MAX: Final = 8_192
"""The Job writes half of that at most."""
FORM: Final = 1
"""The form of the summary that is known here."""
FIELD: Final = "analysis"
"""The field of a BrokerCluster's status, which is written here alone."""
COUNT_MAX: Final = (1 << 53) - 1
"""The largest whole number that every reader of JSON keeps."""
BROKER_ID_MAX: Final = 99
SHARE_MAX: Final = 100
TOP_INCIDENTS_MAX: Final = 5
SENTENCE_LENGTH_MAX: Final = 300
FOUND_INCIDENTS: Final = "AnalysisFoundIncidents"
"""Reason of the Event about a run that found any."""

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_COUNTS: Final = (
    *("incidents", "elections", "isrShrinks", "leaderlessLowMs", "leaderlessHighMs"),
    *("recordsAtRisk", "recordsLost"),
)


class SummaryBroken(ValueError):
    """A text is no summary of a run; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisSample:
    """The last run of a cluster's analysis, for the metrics."""

    cluster: str
    ended_seconds: float
    window_seconds: float
    told: Mapping[str, int]
    """The counts and coveragePercent, by field of the status."""


def cluster_of(found: FoundObject) -> str:
    """Return the cluster that a ConfigMap's summary is about, "" if it is no such ConfigMap."""
    labels = found.whole["metadata"].get("labels") or {}
    return str(labels.get(ANALYSIS_OF_LABEL, ""))


def summary_of(found: FoundObject) -> Object | None:
    """Return what a ConfigMap tells as it stands in a status, None before its first run.

    Raises:  SummaryBroken
    """
    text = (found.whole.get("data") or {}).get(SUMMARY_KEY)
    return None if text is None else read_summary(text, cluster_of(found))


def summary_or_none(found: FoundObject) -> Object | None:
    """Return what a ConfigMap tells, None if that cannot be read; `reconcile` tells why."""
    try:
        return summary_of(found)
    except SummaryBroken:
        return None


def read_summary(text: str, cluster: str) -> Object:
    """Return the fields of a summary that are known; others are of a later version.

    Raises:  SummaryBroken
    """
    length = len(text.encode(errors="replace"))
    if length > SUMMARY_BYTES_MAX:
        raise SummaryBroken(f"{length} bytes, at most {SUMMARY_BYTES_MAX} are read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SummaryBroken(f"no JSON: {error}") from error
    if not isinstance(value, dict):
        raise SummaryBroken("no JSON object")
    if _whole(value, "version", 1, COUNT_MAX) != FORM:
        raise SummaryBroken(f"of version {value['version']}, known is {FORM}")
    if value.get("cluster") != cluster:
        raise SummaryBroken("of another cluster than the label says")
    return _judged(value)


def _judged(value: Mapping[str, Any]) -> Object:
    """Return the fields of the status, each judged.

    Raises:  SummaryBroken
    """
    found = value.get("topIncidents")
    if not isinstance(found, list) or len(found) > TOP_INCIDENTS_MAX:
        raise SummaryBroken(f"topIncidents is no list of {TOP_INCIDENTS_MAX} at most")
    summary: Object = {
        **{name: _time(value, name) for name in ("endedAt", "windowStart", "windowEnd")},
        "coveragePercent": _whole(value, "coveragePercent", 0, SHARE_MAX),
        **{name: _whole(value, name, 0, COUNT_MAX) for name in _COUNTS},
        "topIncidents": [_incident(each) for each in found],
    }
    if not summary["windowStart"] < summary["windowEnd"]:
        raise SummaryBroken("windowEnd is not after windowStart")
    return summary


def _incident(value: Any) -> Object:
    if not isinstance(value, dict):
        raise SummaryBroken("an incident is no JSON object")
    sentence = value.get("sentence")
    is_sentence = isinstance(sentence, str) and 0 < len(sentence) <= SENTENCE_LENGTH_MAX
    if not is_sentence or not str(sentence).isprintable():
        raise SummaryBroken(f"sentence is no line of 1 to {SENTENCE_LENGTH_MAX} characters")
    incident: Object = {"startedAt": _time(value, "startedAt"), "sentence": sentence}
    if value.get("rootBroker") is not None:
        incident["rootBroker"] = _whole(value, "rootBroker", 0, BROKER_ID_MAX)
    return incident


def _whole(value: Mapping[str, Any], name: str, least: int, most: int) -> int:
    found = value.get(name)
    # A bool is an int of Python's, and no number of JSON's.
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise SummaryBroken(f"{name} is no whole number from {least} to {most}")
    return found


def _time(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not _TIME.fullmatch(found):
        raise SummaryBroken(f"{name} is no time such as 2026-01-02T03:04:05Z")
    try:
        datetime.fromisoformat(found)
    except ValueError as error:
        raise SummaryBroken(f"{name}: {error}") from error
    return found


def newest(summaries: list[Object]) -> Object | None:
    """Return the summary of the run that ended last."""
    return max(summaries, key=lambda each: str(each["endedAt"]), default=None)


def analysis_status(observed: ObservedCluster) -> Object:
    """Return the field of the status; what stands there stays while no ConfigMap says better.

    It goes with the last ConfigMap about the cluster.
    """
    shown = observed.status.written.get(FIELD) if observed.has_summary else None
    summary = observed.summary or shown
    return {FIELD: summary} if summary is not None else {}


def analysis_events(cluster: DesiredCluster, observed: ObservedCluster) -> list[PostEvent]:
    """Return an Event about a run that is new and found incidents: one for each such run."""
    summary, shown = observed.summary, observed.status.written.get(FIELD) or {}
    if summary is None or not summary["incidents"] or shown.get("endedAt") == summary["endedAt"]:
        return []
    count, top = summary["incidents"], summary["topIncidents"]
    incidents = f"{count} incident" if count == 1 else f"{count} incidents"
    widest = f"; the widest: {top[0]['sentence']}" if top else ""
    message = f"from {summary['windowStart']} to {summary['windowEnd']}: {incidents}{widest}"
    once = str(summary["endedAt"])
    return [PostEvent(about=cluster.ref, reason=FOUND_INCIDENTS, message=message, once=once)]


def sample_of(cluster: str, shown: Object | None) -> AnalysisSample | None:
    """Return what the metrics tell of a status, None of one that is not as it was written here."""
    try:
        summary = _judged(shown or {})
    except SummaryBroken:
        return None
    ended, start, end = (
        datetime.fromisoformat(summary[name]).timestamp()
        for name in ("endedAt", "windowStart", "windowEnd")
    )
    return AnalysisSample(
        cluster=cluster,
        ended_seconds=ended,
        window_seconds=end - start,
        told={name: summary[name] for name in ("coveragePercent", *_COUNTS)},
    )
