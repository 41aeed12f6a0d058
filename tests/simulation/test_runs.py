"""A plan always ends the same way; plans can be written, read and shrunk."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_cli.__main__ import main
from strandline_simulation.invariants import Invariant
from strandline_simulation.plan import Plan, from_json, to_json
from strandline_simulation.plan_generator import draw_plan
from strandline_simulation.run import run
from strandline_simulation.shrink import Shrinker
from tests.simulation.directed import JOIN_BELOW_EPOCH_START
from tests.simulation.mutants import JOIN_BEFORE_EPOCH_START, planted

_DIGESTS = """
from strandline_simulation.run import run
from strandline_simulation.plan_generator import draw_plan
print([run(draw_plan(seed)).digest for seed in range(6)])
"""


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert len(set(digests.pop().strip("[]\n").split(", "))) == 6


def test_a_plan_survives_being_written_and_read() -> None:
    plan = draw_plan(11)
    assert from_json(to_json(plan)) == plan


def test_an_unknown_field_of_a_plan_is_refused() -> None:
    text = to_json(draw_plan(11)).replace('"min_insync_replicas"', '"min_isr"')
    with pytest.raises(TypeError, match="min_isr"):
        from_json(text)


def test_the_fate_of_messages_does_not_depend_on_what_else_is_planned() -> None:
    plan = draw_plan(3)
    quiet = replace(plan, consumes=())
    assert run(quiet).elections == run(plan).elections


def test_shrinking_keeps_what_breaks_the_invariant_and_little_else() -> None:
    plan = replace(
        JOIN_BELOW_EPOCH_START,
        produces=(*JOIN_BELOW_EPOCH_START.produces, *draw_plan(2).produces[:6]),
    )
    with planted(JOIN_BEFORE_EPOCH_START):
        small = Shrinker(_only_partition_0(plan), Invariant.ISR_IS_COMPLETE, runs_max=60).shrink()
        assert run(small).broken_invariant == Invariant.ISR_IS_COMPLETE
    assert len(small.produces) <= 2
    assert len(small.faults) <= 3


def _only_partition_0(plan: Plan) -> Plan:
    return replace(plan, produces=tuple(replace(each, partition=0) for each in plan.produces))


def test_the_command_prints_a_table_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seeds", "2", "--first-seed", "1"]) == 0
    printed = capsys.readouterr().out
    assert "leader elections per schedule" in printed
    assert "invariants broken" in printed


def test_the_command_reports_a_broken_invariant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(to_json(JOIN_BELOW_EPOCH_START))
    with planted(JOIN_BEFORE_EPOCH_START):
        assert main(["sim", "--plan", str(path), "--shrink-to", str(tmp_path / "small.json")]) == 1
    printed = capsys.readouterr().out
    assert f"seed 1: {Invariant.ISR_IS_COMPLETE}" in printed
    assert "IsrChangeRequested" in printed
    assert from_json((tmp_path / "small.json").read_text()).faults
    assert main(["sim", "--plan", str(path)]) == 0
