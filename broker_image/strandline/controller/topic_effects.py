"""What the controller wants written into ReplicatedTopics."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import AppliedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TellAppliedConfig:
    """Apply `ReplicatedTopic.status.appliedConfig` if the object still has resource_version.

    No event follows: a watch shows what is stored, and the controller tells it again if need be.
    """

    name: str
    resource_version: str
    applied: AppliedConfig
