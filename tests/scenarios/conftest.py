"""The option `--update-scenarios`, which rewrites the scenarios' expected output."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-scenarios",
        action="store_true",
        help="write what scenarios print into their files instead of comparing",
    )
