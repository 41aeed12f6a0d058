"""The watch of the controller Lease goes on after an outage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from strandline.controller.events import ControllerEvent
from strandline.controller.store_events import LeaseObserved
from strandline.controller_session.events import Event as SessionEvent
from strandline.controller_session.events import HolderObserved
from strandline.errors import StoreUnavailable
from strandline.kube.api import Listed
from strandline.kube.lease import LeaseStore
from strandline.kube.watch import Change
from strandline.model import ControllerEpoch, LeaseRecord
from strandline.runtime.shells import lease_watch
from strandline.runtime.shells.lease_watch import watch_lease
from tests.support.eventually import aeventually

LIMIT_MS = 5_000


def lease(holder: str) -> LeaseRecord:
    return LeaseRecord(
        name="demo-controller",
        resource_version="5",
        holder_identity=holder,
        lease_duration_seconds=3,
        acquire_time="",
        renew_time="",
        lease_transitions=1,
        controller_epoch=ControllerEpoch(1),
    )


class OneChange:
    """A Lease that changes its holder once, and then cannot be read for a while."""

    async def list(self, _: str) -> Listed[LeaseRecord]:
        return Listed(items=(lease("broker-1/a"),), resource_version="7")

    async def watch(
        self, _: str, resource_version: str, *, timeout_seconds: int
    ) -> AsyncGenerator[Change[LeaseRecord], None]:
        assert (resource_version, timeout_seconds) == ("7", 3)
        yield Change(name="demo-controller", resource_version="8", value=lease("broker-2/b"))
        yield Change(name="demo-controller", resource_version="9", value=None)
        raise StoreUnavailable("as planned")


def test_both_machines_hear_of_every_change_and_the_watch_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(lease_watch, "WATCH_RESTART_SECONDS", 0)
        controller: list[ControllerEvent] = []
        session: list[SessionEvent] = []
        watching = asyncio.create_task(
            watch_lease(
                cast(LeaseStore, OneChange()),
                "demo-controller",
                lease_duration_seconds=3,
                step_controller=controller.append,
                step_session=session.append,
            )
        )
        await aeventually(lambda: len(controller) >= 4, LIMIT_MS, "a second look")
        watching.cancel()
        seen = [lease("broker-1/a"), lease("broker-2/b"), None, lease("broker-1/a")]
        assert controller[:4] == [LeaseObserved(lease=each) for each in seen]
        assert session[:4] == [
            HolderObserved(holder_identity="" if each is None else each.holder_identity)
            for each in seen
        ]

    asyncio.run(scenario())
