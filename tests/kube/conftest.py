"""Fixtures of the API client tests: the project's kinds on a real API server."""

from __future__ import annotations

import pytest

from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane) -> None:
    """Install the CRDs once."""
    objects.install_crds(control_plane)
