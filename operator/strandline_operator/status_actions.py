"""The write of a status that changed, and the Event of a new refusal.

Pure; called by `plan` and `plan_topics`.
"""

from __future__ import annotations

from strandline.kube.api import Object

from . import resources
from .actions import Action, ApplyStatus, PostEvent
from .conditions import READY, Readiness
from .observed import FoundStatus, ObjectRef


def status_actions(
    owner: ObjectRef,
    found: FoundStatus,
    status: Object,
    readiness: Readiness | None,
    refusal: Readiness | None,
) -> list[Action]:
    """Return the status write if the status changed, and an Event for a new refusal."""
    if found.shows(status):
        return []
    reason = status["conditions"][0]["reason"]
    # A write without an answer may have landed: what it raised must not be taken back.
    version = found.resource_version if refusal is not None else ""
    body = resources.status_of(owner, status, resource_version=version)
    actions: list[Action] = [ApplyStatus(body=body, reason=reason)]
    before = found.conditions.get(READY)
    if readiness is not None and readiness.refused and (before is None or before.reason != reason):
        actions.append(PostEvent(about=owner, reason=reason, message=readiness.message))
    return actions
