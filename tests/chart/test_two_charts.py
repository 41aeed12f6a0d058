"""Both charts rendered: namespaces and releases, roles for people, images, umbrella charts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import needed_fields, rendered
from tests.support.commands import CommandError, programs, run
from tests.support.strandline_objects import CHART, CRDS_CHART, IMAGES, rendered_operator

pytestmark = pytest.mark.processes

ALL = (
    "--set=prometheus.enabled=true",
    "--set=dashboards.enabled=true",
    "--set=analysis.enabled=true",
)
TWO = "--set=watchNamespaces={one,two}"
WHOLE_CLUSTER = {
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ClusterRole",
}
OF_NODES = {"ClusterRole", "ClusterRoleBinding"}
"""What lets an operator list nodes, which are in no namespace; each release has its own."""
OBJECTS = {"brokerclusters", "brokers", "partitions", "replicatedtopics"}


def keys(items: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return (kind, namespace, name) of each object; some have no namespace."""
    return {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for item in items
    }


def test_every_object_of_the_operator_names_its_namespace() -> None:
    items = rendered.render(*ALL, TWO)
    named = {(kind, namespace) for kind, namespace, _ in keys(items) if kind not in OF_NODES}
    assert {namespace for _, namespace in named} == {"somewhere", "one", "two"}
    assert not {kind for kind, _ in named} & WHOLE_CLUSTER


def test_what_belongs_to_the_whole_cluster_has_the_other_chart() -> None:
    items = rendered.render_definitions()
    assert {item["kind"] for item in items} == WHOLE_CLUSTER
    assert {namespace for _, namespace, _ in keys(items)} == {""}


def test_releases_share_no_object() -> None:
    def of(release: str, namespace: str, *values: str) -> set[tuple[str, str, str]]:
        command = [str(programs() / "helm"), "template", release, str(CHART), "-n", namespace]
        version = f"--kube-version={programs().parent.name.removeprefix('kube-')}"
        text = run([*command, version, *IMAGES, *ALL, *values])
        return keys([item for item in yaml.safe_load_all(text) if item])

    first = of("strandline", "a")
    assert not first & of("strandline", "b")
    assert not first & of("other", "a")
    assert not first & of("strandline", "c", TWO)


@pytest.mark.parametrize("kind", ["Role", "RoleBinding", "NetworkPolicy"])
def test_each_watched_namespace_gets_its_own(kind: str) -> None:
    items = rendered.render("--set=operator.readNodes=false", TWO)
    found = {(namespace, name) for each, namespace, name in keys(items) if each == kind}
    names = {name for _, name in found}
    assert names >= {"strandline-broker" if kind != "RoleBinding" else "strandline-operator"}
    assert found == {(namespace, name) for namespace in ("one", "two") for name in names}


def test_prometheus_finds_brokers_and_the_operator_of_another_namespace() -> None:
    roles = {
        namespace
        for kind, namespace, name in keys(rendered.render(*ALL, TWO))
        if kind == "Role" and name == "strandline-prometheus"
    }
    assert roles == {"somewhere", "one", "two"}


def test_bindings_in_other_namespaces_name_the_account_of_the_release() -> None:
    for item in rendered.render(*ALL, TWO):
        if item["kind"] == "RoleBinding":
            (subject,) = item["subjects"]
            assert subject["namespace"] == "somewhere"


def test_the_operator_reaches_brokers_of_other_namespaces() -> None:
    policies = [item for item in rendered.render(TWO) if item["kind"] == "NetworkPolicy"]
    own = {"matchLabels": {"kubernetes.io/metadata.name": "somewhere"}}
    for policy in policies:
        _, operator = policy["spec"]["ingress"][0]["from"]
        assert operator["namespaceSelector"] == own
    assert len(policies) == 2


def test_operator_and_prometheus_are_told_the_namespaces() -> None:
    for values, wanted in ((ALL, ["somewhere"]), ((*ALL, TWO), ["one", "two"])):
        items = {
            item["metadata"]["name"]: item.get("data", {})
            for item in rendered.render(*values)
            if item["kind"] == "ConfigMap"
        }
        operator = yaml.safe_load(items["strandline-operator"]["operator.yaml"])
        assert operator["watchNamespaces"] == wanted
        scrape = yaml.safe_load(items["strandline-prometheus"]["prometheus.yml"])
        (discovery,) = scrape["scrape_configs"][0]["kubernetes_sd_configs"]
        assert discovery["namespaces"] == {"names": wanted}


@pytest.mark.parametrize("part", ["operator", "broker", "prometheus", "analysis"])
def test_an_image_without_a_repository_is_refused_with_what_to_set(part: str) -> None:
    with pytest.raises(CommandError) as refused:
        rendered.render(*ALL, f"--set={part}.image.repository=")
    said = refused.value.error
    assert f"{part}.image.repository is empty: set it to where your nodes get the image" in said
    assert f"--set {part}.image.repository=registry.example.com/strandline-{part}" in said


def test_nothing_but_images_has_to_be_set() -> None:
    with pytest.raises(CommandError, match=r"image\.repository is empty"):
        run([str(programs() / "helm"), "template", "x", str(CHART), "--kube-version=1.31.0"])


def test_an_empty_tag_is_the_version_of_the_chart() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    (deployment,) = [item for item in rendered.render() if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"example.com/operator:{version}"


def test_people_get_roles_by_aggregation() -> None:
    allowed: dict[str, set[tuple[str, str]]] = {"view": set(), "edit": set(), "admin": set()}
    for item in rendered.render_definitions():
        if item["kind"] != "ClusterRole":
            continue
        rights = {
            (resource, verb)
            for rule in item["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for role, found in allowed.items():
            if f"rbac.authorization.k8s.io/aggregate-to-{role}" in item["metadata"]["labels"]:
                found.update(rights)
    reads = {(each, verb) for each in OBJECTS for verb in ("get", "list", "watch")}
    assert allowed["view"] == reads
    edits = {
        (each, verb)
        for each in ("brokerclusters", "replicatedtopics")
        for verb in ("create", "update", "patch", "delete", "deletecollection")
    }
    edits |= {("brokerclusters/scale", verb) for verb in ("get", "update", "patch")}
    assert allowed["edit"] == reads | edits
    repairs = {
        (each, verb) for each in ("brokers", "partitions") for verb in ("update", "patch", "delete")
    }
    assert allowed["admin"] == reads | edits | repairs


def test_roles_for_people_can_be_left_out() -> None:
    items = rendered.render_definitions("--set=roles.enabled=false")
    assert {item["kind"] for item in items} == WHOLE_CLUSTER - {"ClusterRole"}


@pytest.mark.parametrize("wrong", ["keep=maybe", "crds.keep=true", "roles.enabled=1"])
def test_wrong_values_of_the_definitions_are_refused(wrong: str) -> None:
    with pytest.raises(CommandError, match="values don't meet the specifications"):
        rendered.render_definitions(f"--set={wrong}")


def test_an_umbrella_chart_may_bring_both_and_switch_them(tmp_path: Path) -> None:
    umbrella = tmp_path / "umbrella"
    for chart in (CHART, CRDS_CHART):
        shutil.copytree(chart, umbrella / "charts" / chart.name)
    names = [CHART.name, CRDS_CHART.name]
    (umbrella / "Chart.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v2",
                "name": "umbrella",
                "version": "1.0.0",
                "dependencies": [
                    {"name": name, "version": "*", "condition": f"{name}.enabled"} for name in names
                ],
            }
        )
    )
    values = {name: {"enabled": True} for name in names}
    (umbrella / "values.yaml").write_text(yaml.safe_dump({"global": {"region": "here"}} | values))
    images = [each.replace("--set=", "--set=strandline.") for each in IMAGES]
    command = [str(programs() / "helm"), "template", "x", str(umbrella), "--kube-version=1.31.0"]

    def kinds(*more: str) -> set[str]:
        text = run([*command, *images, *more])
        return {item["kind"] for item in yaml.safe_load_all(text) if item}

    assert kinds() >= {"Deployment", *WHOLE_CLUSTER}
    assert kinds("--set=strandline.enabled=false") == WHOLE_CLUSTER
    assert not kinds("--set=strandline-crds.enabled=false") & (WHOLE_CLUSTER - OF_NODES)


def test_the_notes_can_be_pasted(tmp_path: Path) -> None:
    """The command of the notes is run by a shell, with a kubectl that prints what it is given."""
    notes = next(CHART.rglob("NOTES.txt")).read_text()
    chart = tmp_path / "strandline"
    shutil.copytree(CHART, chart)
    # Helm shows notes only of an install; as a template their text is rendered the same way.
    wrapped = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n"
        'data: {notes: {{ include "n" . | quote }}}\n'
    )
    (chart / "templates" / "notes.yaml").write_text(
        f'{wrapped}{{{{- define "n" -}}}}{notes}{{{{- end }}}}\n'
    )
    version = f"--kube-version={programs().parent.name.removeprefix('kube-')}"
    only = ("--show-only", "templates/notes.yaml")
    template = [str(programs() / "helm"), "template", "x", str(chart), "-n", "here", version]
    shown = yaml.safe_load(run([*template, *IMAGES, *only]))["data"]["notes"]
    begin = shown.index("kubectl apply")
    (tmp_path / "kubectl").write_text('#!/bin/sh\necho "$*"\ncat\n')
    (tmp_path / "kubectl").chmod(0o755)
    pasted = shown[begin : shown.index("Watch every change")] + "echo ended\n"
    printed = run(["sh"], stdin=pasted, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    called, _, rest = printed.partition("\n")
    assert called == "apply -n here -f -"
    manifest, _, end = rest.rpartition("ended")
    assert end == "\n"
    assert yaml.safe_load(manifest)["spec"] == {"partitions": 6, "replicationFactor": 3}


def test_the_operator_needs_the_fields_of_the_charts_definitions() -> None:
    assert needed_fields.FILE.read_text() == needed_fields.text(), (
        "run python -m tests.chart.needed_fields"
    )


def test_an_operator_of_its_own_namespace_renders_as_before() -> None:
    assert keys(rendered_operator("somewhere", "--set=watchNamespaces={somewhere}")) == keys(
        rendered.render()
    )
