"""The fields that the operator asks the served definitions for, made of the chart's definitions.

    python -m tests.chart.needed_fields

writes them to the operator's package; a test compares them.
"""

from __future__ import annotations

from pathlib import Path

from strandline_operator import definitions
from tests.chart import rendered

FILE = Path(definitions.__file__).parent / definitions.NEEDED_FILE


def text() -> str:
    """Return a line for every value in the spec and status of every kind."""
    kinds = sorted(rendered.crd_schemas())
    return "".join(f"{kind} {path}\n" for kind in kinds for path in sorted(rendered.fields(kind)))


if __name__ == "__main__":
    FILE.write_text(text())
