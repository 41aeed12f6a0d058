"""Every command that a page for users gives is run by a test, or says here why none runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY
from tests.support.documented import Command, commands, documents

WALK = "tests/pods/test_readme.py::test_a_reader_installs_connects_breaks_looks_and_removes"
OUTSIDE = "tests/pods/test_outside.py::test_a_reader_connects_from_outside_and_back_again"
LIFE = "tests/long/test_operations.py::test_the_life_of_a_cluster_as_the_page_tells_it"
RUN_BY = {
    ("README.md", "Install"): WALK,
    ("README.md", "Connect"): WALK,
    ("README.md", "Break"): WALK,
    ("README.md", "Look"): WALK,
    ("README.md", "Remove"): WALK,
    ("README.md", "Known traps"): WALK,
    ("helm/strandline/templates/NOTES.txt", ""): WALK,
    ("docs/health.md", "May this broker restart?"): (
        "tests/reconcile/test_pods_process.py"
        "::test_the_budget_follows_min_isr_and_changes_are_events"
    ),
    ("docs/health.md", "Rolling: brokers restart one after the other"): (
        "tests/reconcile/test_rolling_process.py"
        "::test_kubectl_rollout_restart_takes_one_pod_after_the_other_and_the_controller_last"
    ),
    ("docs/health.md", "Versions: the operator first, then cluster by cluster"): (
        "tests/reconcile/test_versions_process.py"
        "::test_a_new_operator_restarts_nobody_and_a_cluster_follows_its_field_and_back"
    ),
    ("docs/connect.md", "From a pod"): OUTSIDE,
    ("docs/connect.md", "From outside"): OUTSIDE,
    ("docs/connect.md", "NodePort"): OUTSIDE,
    ("docs/connect.md", "LoadBalancer"): OUTSIDE,
    ("docs/connect.md", "From the machine that runs kind"): OUTSIDE,
    ("docs/connect.md", "Back again"): OUTSIDE,
    ("docs/operations.md", "Install"): LIFE,
    ("docs/operations.md", "Connect"): LIFE,
    ("docs/operations.md", "Break"): LIFE,
    ("docs/operations.md", "Look"): LIFE,
    ("docs/operations.md", "Change a setting of running brokers"): LIFE,
    ("docs/operations.md", "Change a setting that needs a restart"): LIFE,
    ("docs/operations.md", "Grow volumes"): LIFE,
    ("docs/operations.md", "Add and remove brokers"): LIFE,
    ("docs/operations.md", "Upgrade the operator"): LIFE,
    ("docs/operations.md", "Upgrade the brokers"): LIFE,
    ("docs/operations.md", "Roll back"): LIFE,
    ("docs/operations.md", "Delete a topic and bring it back"): LIFE,
    ("docs/operations.md", "Uninstall"): LIFE,
}
"""By page and heading, the test that runs the commands there as they are written."""
OTHERWISE = {
    "make demo": "docs/acceptance/demo.md: a person watches it",
    "make test": ".ci/run runs it",
    "make push": "tests/cli/test_clusters.py: with a docker that records its calls",
}
"""By beginning, commands that no test runs, and what shows that they work."""


ORDER = (
    "## What it needs",
    "## Try",
    "## Install",
    "## Connect",
    "## Break",
    "## Look",
    "## Remove",
    "## Known traps",
    "## State",
    "## Read on",
)


def unclaimed(command: Command) -> bool:
    by_page = (command.document, command.heading) in RUN_BY
    return not by_page and not any(command.line.startswith(each) for each in OTHERWISE)


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_each_command_of_a_page_is_run_by_a_test_or_says_why_not(page: Path) -> None:
    assert [str(each) for each in commands(page) if unclaimed(each)] == []


@pytest.mark.parametrize(("page", "heading"), RUN_BY)
def test_what_a_test_runs_is_there(page: str, heading: str) -> None:
    path, _, name = RUN_BY[page, heading].partition("::")
    assert f"def {name}(" in (REPOSITORY / path).read_text()
    assert any(each.heading == heading for each in commands(REPOSITORY / page))


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_an_image_has_the_version_that_make_push_gives_it(page: Path) -> None:
    named = re.findall(r"<repository>/strandline-\w+:?[\w.]*", page.read_text())
    assert [each for each in named if ":" not in each] == []


def test_the_readme_keeps_its_order() -> None:
    text = (REPOSITORY / "README.md").read_text()
    assert text.index("```mermaid") < text.index(ORDER[0])
    found = [line for line in text.splitlines() if line.startswith("## ")]
    assert found == list(ORDER)


def test_commands_are_found_in_blocks_and_fences_and_comments_are_not_typed(
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "## One\n    make demo     # a comment\n    helm install a \\\n      b\n"
        "text: kubectl get x\n"
        "## Two\n```sh\nkubectl get pods\n```\n```yaml\nkind: Pod\n```\n      kubectl get nodes\n"
    )
    found = commands(page, tmp_path)
    assert [(each.heading, str(each)) for each in found] == [
        ("One", "make demo"),
        ("One", "helm install a b"),
        ("Two", "kubectl get pods"),
        ("Two", "kubectl get nodes"),
    ]


def test_a_command_that_nothing_claims_is_found() -> None:
    assert unclaimed(Command(document="README.md", heading="Nowhere", line="kubectl get pods"))
    assert not unclaimed(Command(document="README.md", heading="Try", line="make demo"))
