"""The controller's times in tests: those of a shipped configuration with `timing: demo`."""

from __future__ import annotations

from strandline import component_settings
from strandline.config.replication import ControllerConfig, ReplicationConfig
from strandline.config.timing import PROFILES
from strandline.controller.timing import ControllerTiming


def demo_timing() -> ControllerTiming:
    return component_settings.controller(PROFILES["demo"], ControllerConfig(), ReplicationConfig())
