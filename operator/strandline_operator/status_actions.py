"""The write of a status that changed, and the Events of what it tells, before it.

The status takes the reason of an Event away, and an operator may be killed between two writes: so
the Event comes first. A pass that posts it again, because the status was not written, names the
same version of the object, and it stays one Event; one about a run of the analysis names the run.

Pure; called by `plan` and `plan_topics`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from strandline.kube.api import Object

from . import analysis, resources
from .actions import Action, ApplyStatus, PostEvent
from .conditions import READY, Readiness
from .observed import FoundStatus, ObjectRef

MAY_GO: Final = (analysis.FIELD,)
"""Fields whose lack in a status, where nothing else changes, must be written, too."""


def status_actions(
    owner: ObjectRef,
    found: FoundStatus,
    status: Object,
    readiness: Readiness | None,
    refusal: Readiness | None,
    *,
    events: Iterable[PostEvent] = (),
) -> list[Action]:
    """Return these Events, one for a new refusal, and the status write if the status changed."""
    told, written = list(events), list[Action]()
    is_less = any(field in found.written and field not in status for field in MAY_GO)
    if is_less or not found.shows(status):
        reason = status["conditions"][0]["reason"]
        # A write without an answer may have landed: what it raised must not be taken back.
        unless_newer = found.resource_version if refusal is not None else ""
        body = resources.status_of(owner, status, resource_version=unless_newer)
        written = [ApplyStatus(body=body, reason=reason)]
        before = found.conditions.get(READY)
        is_new = before is None or before.reason != reason
        if readiness is not None and readiness.refused and is_new:
            told.append(PostEvent(about=owner, reason=reason, message=readiness.message))
    version = found.resource_version
    return [*(replace(each, once=each.once or version) for each in told), *written]
