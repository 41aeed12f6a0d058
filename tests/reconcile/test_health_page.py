"""docs/health.md tells of every condition and every reason that the operator writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from strandline import model
from strandline_operator import conditions, events, status
from strandline_operator.refusals import REFUSALS
from tests.support.commands import REPOSITORY

PACKAGE = REPOSITORY / "operator" / "strandline_operator"
PAGE = (REPOSITORY / "docs" / "health.md").read_text()
TOLD = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE))
CAMEL = re.compile(r"[A-Z][A-Za-z]+")
CONSTANTS = {
    value
    for module in (conditions, events, status)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str) and CAMEL.fullmatch(value)
}
"""Types of conditions, and the reasons that have names."""


def reasons() -> Iterator[str]:
    """Yield every reason that the operator's code spells out or takes from the model."""
    for path in sorted(PACKAGE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "reason":
                for part in ast.walk(node.value):
                    if isinstance(part, ast.Constant) and CAMEL.fullmatch(str(part.value)):
                        yield str(part.value)
    yield from REFUSALS.values()
    yield from (model.STATE_LOST, model.UNCLEAN_LAST_REPLICA)


def test_the_reasons_are_found_in_the_code() -> None:
    assert {"AllApplied", "Forbidden", "UnderMinIsr", "BrokersNotReady"} <= set(reasons())
    assert {"Ready", "Reconciled", "VolumesFull", "Stalled"} <= CONSTANTS


@pytest.mark.parametrize("word", sorted({*reasons(), *CONSTANTS}))
def test_the_page_tells_of_it(word: str) -> None:
    assert word in TOLD
