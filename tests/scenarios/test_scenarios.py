"""Each text file beside this one is a scenario: commands after "> ", printed effects below."""

from __future__ import annotations

from pathlib import Path

import pytest

from .script import run

HERE = Path(__file__).parent
SCENARIOS = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_prints_what_its_text_says(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text()
    printed = run(expected)
    if request.config.getoption("--update-scenarios", default=False):
        path.write_text(printed)
    else:
        assert printed == expected


def test_story_stands_on_top_of_every_scenario() -> None:
    assert SCENARIOS
    assert [path.name for path in SCENARIOS if not path.read_text().startswith("# ")] == []
