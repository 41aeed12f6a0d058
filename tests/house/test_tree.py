"""The tree keeps the house rules."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as KafkaErrorCode

from strandline.errors import ErrorCode
from strandline.names import ALL_METRICS, Metric, MetricKind
from tests.house.rules import (
    circles,
    conduct,
    decisions,
    layers,
    ownership,
    promises,
    reach,
    references,
    registers,
    shape,
    style,
    tree,
    vocabulary,
    walks,
    words,
)

ROOT = Path(__file__).resolve().parents[2]
Rule = Callable[[Path], list[str]]
RULES: tuple[Rule, ...] = (
    shape.too_long,
    shape.undocumented,
    conduct.impure,
    conduct.unfinished,
    conduct.swallowing,
    conduct.sleeping,
    conduct.unexplained_type_ignores,
    layers.forbidden_imports,
    layers.ambiguous_names,
    circles.import_circles,
    ownership.foreign_changes,
    ownership.strayed_changes,
    ownership.broken_ownership,
    words.forbidden_words,
    registers.metric_names_elsewhere,
    registers.metrics_without_exporter,
    registers.repeated_error_numbers,
    registers.loose_requirements,
    registers.lost_extras,
    registers.loosened_types,
    registers.wrong_verbs,
    registers.stale_generated_code,
    reach.unreached_modules,
    reach.unread_settings,
    promises.unkept_promises,
    promises.undefined_numbers,
    promises.hollow_floor,
    decisions.incomplete_decisions,
    references.dangling_names,
    vocabulary.retired_words,
    vocabulary.repeated_classes,
    vocabulary.second_words,
    vocabulary.long_glossary,
    style.many_ways,
    walks.broken_walks,
)
VERBS = (
    *("help", "demo", "demo-down", "test", "test-fast", "lint", "types", "proto", "images"),
    *("cluster-up", "cluster-down", "sim", "bench"),
)
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as run; run()"


@pytest.fixture(scope="module", autouse=True)
def _remembered_tree() -> Iterator[None]:
    """Let all rules share one reading of the tree, and free it after the last rule.

    The garbage collector is off meanwhile: to visit the syntax trees again and again would take
    longer than to parse them.
    """
    gc.disable()
    yield
    tree.forget()
    gc.enable()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_tree_keeps_the_rule(rule: Rule) -> None:
    offences = rule(ROOT)
    assert not offences, "\n".join(offences)


def test_import_contracts_are_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_case_that_a_promise_names_is_collected() -> None:
    cases = promises.cited_cases(ROOT)
    tests = sorted({case.partition("[")[0] for case in cases})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True, check=True)
    collected = set(done.stdout.splitlines())
    assert f"{tests[0]}[planted]" not in collected
    assert [case for case in cases if case not in collected] == []


@pytest.mark.parametrize("verb", VERBS)
def test_the_makefile_has_the_verb_and_lists_it(verb: str) -> None:
    assert re.search(rf"^  {verb} +\S", make("help"), re.MULTILINE)
    assert make("--dry-run", verb, f"PY={sys.executable}")


def test_continuous_integration_is_make_test_with_its_rules_on(tmp_path: Path) -> None:
    stand_in = tmp_path / "make"
    stand_in.write_text('#!/bin/sh\nenv | grep "^CI="\necho "make $*, in $PWD"\n')
    stand_in.chmod(0o755)
    env = {key: value for key, value in os.environ.items() if key != "CI"}
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    done = subprocess.run(
        [ROOT / ".ci" / "run"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["CI=true", f"make test, in {ROOT}"]
    assert make("--dry-run", "test", f"PY={sys.executable}") == f".ci/tiers {sys.executable}\n"


def make(*args: str) -> str:
    done = subprocess.run(["make", *args], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("code", list(ErrorCode), ids=lambda code: code.name)
def test_error_number_is_kafkas(code: ErrorCode) -> None:
    assert KafkaErrorCode(code.value).name.upper() == code.name


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_metric_follows_the_naming_conventions(metric: Metric) -> None:
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert metric.kind is not MetricKind.HISTOGRAM or metric.name.endswith("_seconds")
    assert metric.help.endswith(".")
    assert len(set(metric.labels)) == len(metric.labels)


def test_metric_names_are_unique() -> None:
    names = [metric.name for metric in ALL_METRICS]
    assert len(set(names)) == len(names)
