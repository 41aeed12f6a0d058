"""Every bound and rule of the CRDs, on a real API server: one write refused, one accepted."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.api import PLURALS, ApiResponse, DryRuns
from tests.chart.cases import BOUNDS, COMPLETE, GONE, Also, Manifest, Rule
from tests.chart.required import REQUIRED
from tests.chart.rules import RULES
from tests.support import strandline_objects as objects
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import namespace_name

pytestmark = pytest.mark.processes

SENTENCES = {
    "minimum": "should be greater than or equal to",
    "maximum": "should be less than or equal to",
    "minLength": "should be at least",
    "maxLength": "may not be more than",
    "minItems": "should have at least",
    "maxItems": "must have at most",
    "maxProperties": "must have at most",
    "pattern": "should match",
    "enum": "Unsupported value",
    "required": "Required value",
    "unique": "Duplicate value",
}
PRINTED = {
    "BrokerCluster": {
        "NAME": "demo",
        "BROKERS": "3",
        "READY": "3",
        "CONTROLLER": "1",
        "EPOCH": "5",
        "OFFLINE": "1",
        "URP": "1",
        "VERSION": "0.1.0",
        "STATUS": "Because",
        "TIMING": "demo",
    },
    "ReplicatedTopic": {
        "NAME": "orders",
        "CLUSTER": "demo",
        "PARTS": "6",
        "RF": "3",
        "MIN-ISR": "2",
        "READY": "True",
        "OFFLINE": "1",
        "URP": "1",
        "MOVING": "1",
        "TOPIC": "Orders",
        "TOPIC-ID": "uid",
        "REASON": "Because",
    },
    "Broker": {
        "NAME": "demo-1",
        "ID": "1",
        "EPOCH": "5",
        "CLEAN-SINCE": "3",
        "HOST": "10.0.0.1",
        "RACK": "zone-a",
        "VOLUME-FULL": "true",
        "INCARNATION": "uid/nonce",
        "VERSION": "0.1.0",
    },
    "Partition": {
        "NAME": "orders-0",
        "TOPIC": "Orders",
        "P": "0",
        "LEADER": "0",
        "EPOCH": "4",
        "ISR": "[0,2]",
        "REPLICAS": "[0,1,2]",
        "ADDING": "[2]",
        "REMOVING": "[1]",
        "ELR": "[1]",
        "PARTITION-EPOCH": "7",
        "RECOVERY": "Clean",
        "REASON": "Because",
    },
}
"""What `kubectl get -o wide` shows of the complete objects, except their age."""
NOT_CHECKED = "some validation rules were not checked because the object was invalid"
"""The API server adds this cause to a broken bound: it runs CEL rules only on a valid shape."""
NO_NAME_ENDS_SO = "ends in '-' and spec."
"""No name ends in a negative number, so this rule refuses one, too."""
SCALE_TAKES_NONE = "should be a non-negative integer"
"""The scale subresource refuses a negative number of replicas, too."""

BOUND_CASES = [
    pytest.param(kind, path, keyword, *pair, id=f"{kind} {path} {keyword}")
    for kind, table in BOUNDS.items()
    for path, keywords in table.items()
    for keyword, pair in keywords.items()
]
REQUIRED_CASES = [
    pytest.param(kind, path, id=f"{kind} {path}")
    for kind, paths in REQUIRED.items()
    for path in paths
]
RULE_CASES = [
    pytest.param(rule, id=f"{rule.kind} {rule.message[:50]} {list(rule.refused.values())}")
    for rule in RULES
]


def changed(manifest: Manifest, edits: Manifest) -> Manifest:
    """Return a copy with values replaced at paths; `[]` means the first item of a list."""
    whole = copy.deepcopy(manifest)
    for path, value in edits.items():
        holder: Any = whole
        steps = [step for step in re.split(r"\.|(\[\])", path) if step]
        for step in steps[:-1]:
            holder = holder[0] if step == "[]" else holder.setdefault(step, {})
        last = 0 if steps[-1] == "[]" else steps[-1]
        if value is GONE:
            del holder[last]
        else:
            holder[last] = value
    return whole


def edits_of(path: str, value: Any) -> Manifest:
    if isinstance(value, Also):
        return {path: value.value, **value.others}
    return {path: value}


class CrdHarness:
    """For each kind one stored object without a status and one complete object."""

    def __init__(self, dry_runs: DryRuns) -> None:
        self.dry_runs = dry_runs
        self.bare: dict[str, Manifest] = {}
        self.complete: dict[str, Manifest] = {}
        for kind, manifest in COMPLETE.items():
            self.complete[kind] = self._stored(manifest)
            name = f"bare-{manifest['metadata']['name']}"
            bare = changed(manifest, {"metadata.name": name, "status": GONE})
            response = dry_runs.create(bare)
            assert response.code == 201, response.value
            self.bare[kind] = response.value

    def _stored(self, manifest: Manifest) -> Manifest:
        created = self.dry_runs.create(manifest)
        assert created.code == 201, created.value
        response = self.dry_runs.put_status({**created.value, "status": manifest["status"]})
        assert response.code == 200, response.value
        return response.value

    def try_value(self, kind: str, edits: Manifest) -> ApiResponse:
        """Write a complete object with edits in a dry run, over an object without a status."""
        path = next(iter(edits))
        if path.startswith("spec"):
            return self.dry_runs.try_create(changed(_fresh(kind), edits))
        whole = {**self.bare[kind], "status": COMPLETE[kind]["status"]}
        return self.dry_runs.try_update(changed(whole, edits), status=True)

    def try_rule(self, rule: Rule, edits: Manifest) -> ApiResponse:
        """Make the write of a rule's case in a dry run."""
        if rule.on == "create":
            return self.dry_runs.try_create(changed(_fresh(rule.kind), edits))
        whole = changed(self.complete[rule.kind], edits)
        return self.dry_runs.try_update(whole, status=rule.on == "status")


def _fresh(kind: str) -> Manifest:
    """Return an object to be created, under a name that no object has."""
    name = f"fresh-{COMPLETE[kind]['metadata']['name']}"
    return changed(COMPLETE[kind], {"metadata.name": name, "status": GONE})


@pytest.fixture(scope="module")
def harness(control_plane: ControlPlane) -> Iterator[CrdHarness]:
    objects.install_crds(control_plane)
    namespace = namespace_name("crds")
    control_plane.kubectl("create", "namespace", namespace)
    dry_runs = DryRuns(control_plane.kubeconfig, namespace)
    yield CrdHarness(dry_runs)
    dry_runs.close()
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


def the_only_cause(response: ApiResponse) -> tuple[str, str]:
    assert response.code == 422, response.value
    causes = [cause for cause in response.causes if NOT_CHECKED not in cause[1]]
    if len(causes) > 1:
        too = (NO_NAME_ENDS_SO, SCALE_TAKES_NONE)
        causes = [cause for cause in causes if not any(each in cause[1] for each in too)]
    assert len(causes) == 1, causes
    return causes[0]


@pytest.mark.parametrize(("kind", "path", "keyword", "accepted", "refused"), BOUND_CASES)
def test_bound(
    harness: CrdHarness, kind: str, path: str, keyword: str, accepted: Any, refused: Any
) -> None:
    response = harness.try_value(kind, edits_of(path, accepted))
    assert response.code in {200, 201}, response.value
    field, sentence = the_only_cause(harness.try_value(kind, edits_of(path, refused)))
    plain = re.sub(r"\[\d+\]", "[]", field)
    assert plain in {path, f"{path}[]"} or keyword == "unique"
    assert SENTENCES[keyword] in sentence


@pytest.mark.parametrize(("kind", "path"), REQUIRED_CASES)
def test_required(harness: CrdHarness, kind: str, path: str) -> None:
    field, sentence = the_only_cause(harness.try_value(kind, {path: GONE}))
    assert re.sub(r"\[\d+\]", "[]", field) == path
    assert SENTENCES["required"] in sentence


@pytest.mark.parametrize("rule", RULE_CASES)
def test_rule(harness: CrdHarness, rule: Rule) -> None:
    accepted = harness.try_rule(rule, rule.accepted)
    assert accepted.code in {200, 201}, accepted.value
    _, sentence = the_only_cause(harness.try_rule(rule, rule.refused))
    assert rule.message in sentence


@pytest.mark.parametrize("kind", sorted(COMPLETE))
def test_complete_objects_are_accepted(harness: CrdHarness, kind: str) -> None:
    assert harness.complete[kind]["status"] == COMPLETE[kind]["status"]


@pytest.mark.parametrize("kind", sorted(COMPLETE))
def test_kubectl_prints_the_columns(
    harness: CrdHarness, control_plane: ControlPlane, kind: str
) -> None:
    stored = harness.complete[kind]["metadata"]
    resource = f"{PLURALS[kind]}.strandline.dev/{stored['name']}"
    printed = control_plane.kubectl("get", resource, "-n", stored["namespace"], "-o", "wide")
    titles, values = (line.split() for line in printed.splitlines())
    row = dict(zip(titles, values, strict=True))
    assert row.pop("AGE")
    assert row == PRINTED[kind]


@pytest.mark.parametrize("kind", sorted(COMPLETE))
def test_a_status_cannot_be_removed(harness: CrdHarness, kind: str) -> None:
    whole = changed(harness.complete[kind], {"status": GONE})
    response = harness.dry_runs.try_update(whole, status=True)
    assert response.code == 422, response.value
    assert response.causes
    assert all("removed" in sentence for _, sentence in response.causes), response.causes


@pytest.mark.parametrize("kind", sorted(COMPLETE))
def test_an_unknown_field_is_refused_by_strict_clients(harness: CrdHarness, kind: str) -> None:
    """Clients such as kubectl and helm are strict; for others the server drops unknown fields."""
    fresh = _fresh(kind)
    unknown = changed(fresh, {"spec.replicaz": 1})
    refused = harness.dry_runs.try_create(unknown, validation="Strict")
    assert refused.code == 400, refused.value
    assert 'unknown field "spec.replicaz"' in refused.value["message"]
    pruned = harness.dry_runs.try_create(unknown)
    assert pruned.code == 201
    assert pruned.value["spec"] == harness.dry_runs.try_create(fresh).value["spec"]


def test_kubectl_refuses_an_unknown_field_by_itself(
    harness: CrdHarness, control_plane: ControlPlane
) -> None:
    fresh = changed(COMPLETE["ReplicatedTopic"], {"metadata.name": "fresh", "status": GONE})
    manifest = json.dumps(changed(fresh, {"spec.config.segmentBites": 1}))
    command = ("create", "--dry-run=server", "-f", "-", "-n", harness.dry_runs.namespace)
    with pytest.raises(CommandError, match=r'unknown field "spec\.config\.segmentBites"'):
        control_plane.kubectl(*command, stdin=manifest)


def test_defaults_fill_an_empty_spec(harness: CrdHarness) -> None:
    topic = changed(COMPLETE["ReplicatedTopic"], {"metadata.name": "t", "spec": {}})
    assert harness.dry_runs.try_create(topic).value["spec"] == {
        "clusterRef": "default",
        "partitions": 3,
        "replicationFactor": 3,
        "config": {},
        "deletionProtection": False,
        "uncleanLeaderElection": False,
    }
    cluster = changed(COMPLETE["BrokerCluster"], {"metadata.name": "c", "spec": {}})
    assert harness.dry_runs.try_create(cluster).value["spec"] == {
        "replicas": 3,
        "timing": "safe",
        "storage": {"size": "1Gi"},
        "config": {},
        "deleteTopicEnable": True,
    }
