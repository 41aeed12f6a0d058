"""The option that rewrites what the scenarios expect; the diff is to be read."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-scenarios",
        action="store_true",
        help="write what scenarios print into their files instead of comparing",
    )
