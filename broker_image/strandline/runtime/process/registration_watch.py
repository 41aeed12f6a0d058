"""Watches the Broker object, so that a registered broker stays the holder of its id.

Made by `lifecycle`. It decides nothing about leadership: losing contact with the API server
changes nothing; another process's registration ends this process. It also says there whether the
volume is full, for people and the operator (ADR 0023), and at which address clients outside find
the broker (ADR 0045) and with which settings it works (ADR 0056), which it learns from the same
object.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from enum import Enum
from typing import Final

from strandline.config.broker import BrokerConfig
from strandline.errors import CoordinationError, RegistrationSuperseded
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log_fields import fields
from strandline.model import Registration, StoredBroker
from strandline.runtime.event_loop.begun_tasks import end_all

from .registration import Registered
from .registration_news import RegistrationNews, WantedAddress
from .running_settings import RunningSettings

_log = logging.getLogger(__name__)

NEWS_PAUSE_SECONDS: Final = 5.0
"""Time between two writes that say what changed since the start."""


class RegistrationVerdict(Enum):
    """What a stored registration means for the running broker."""

    OURS = "ours"
    MISSING = "missing"
    ANOTHERS = "another's"


def judge_registration(own: Registration, stored: Registration | None) -> RegistrationVerdict:
    """Judge the stored registration of our id, once ours was stored."""
    if stored is None:
        return RegistrationVerdict.MISSING
    if stored.incarnation == own.incarnation and stored.broker_epoch <= own.broker_epoch:
        return RegistrationVerdict.OURS
    if stored.broker_epoch < own.broker_epoch:
        # Ours was stored, and epochs rise: the object is a new one, or the store went back.
        return RegistrationVerdict.MISSING
    return RegistrationVerdict.ANOTHERS


class RegistrationWatch:
    """Keeps the registration in the Broker object, and ends the process if it is another's."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: ClusterStore,
        registered: Registered,
        news: RegistrationNews,
        wanted: WantedAddress,
        settings: RunningSettings,
    ) -> None:
        self._config = config.kubernetes
        self._news = news
        self._wanted = wanted
        self._settings = settings
        self._follow(registered.stored)
        self._pod_name = config.identity.pod_name
        self._store = store
        self._own = registered.registration
        self._version = registered.stored.resource_version
        self._report = WaitingReport(config.kubernetes)
        self._pauses = Pauses(config.kubernetes)

    async def run(self) -> None:
        """Watch for ever; RegistrationSuperseded if another process holds the id."""
        tasks = [asyncio.create_task(each) for each in (self._hold(), self._report_news())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            await end_all(tasks)

    async def _report_news(self) -> None:
        """Write what changed, not too often."""
        report, pauses = WaitingReport(self._config), Pauses(self._config)
        while True:
            await self._news.change()
            while (cause := await self._news_not_reported()) is not None:
                report.waiting_for("report of volume and address", cause)
                await pauses.pause()
            report.reset()
            pauses.reset()
            await asyncio.sleep(NEWS_PAUSE_SECONDS)

    async def _news_not_reported(self) -> CoordinationError | None:
        """Write the news, if the registration is ours and says otherwise.

        Returns: why it could not be written, None if it is. What is not ours is not changed here
        """
        try:
            found = await self._store.get_broker(self._pod_name)
            stored = None if found is None else found.registration
            if found is None or stored is None:
                return None
            told = self._news.added_to(stored)
            if told != stored and judge_registration(self._own, stored) is RegistrationVerdict.OURS:
                await self._store.put_broker_status(found, told)
        except CoordinationError as error:
            return error
        return None

    async def _hold(self) -> None:
        """Follow the Broker object, and write the registration back where it is missing."""
        while True:
            try:
                await self._watch_until_odd()
            except CoordinationError as error:
                self._report.waiting_for("watch of the own Broker object", error)
                await self._pauses.pause()
            while not await self._confirmed():
                await self._pauses.pause()
            self._pauses.reset()
            self._report.reset()

    async def _watch_until_odd(self) -> None:
        """Follow changes until one lacks our registration; a quorum read then decides."""
        changes = self._store.watch_broker(self._pod_name, self._version)
        async with aclosing(changes):
            async for change in changes:
                self._version = change.resource_version
                seen = change.value.registration if change.value else None
                if judge_registration(self._own, seen) is not RegistrationVerdict.OURS:
                    return
                if change.value is not None:
                    self._follow(change.value)

    def _follow(self, stored: StoredBroker) -> None:
        """Take what the operator wants of the running broker."""
        self._wanted.tell(stored.external)
        self._settings.tell(stored.settings)

    async def _confirmed(self) -> bool:
        """Read the Broker object with quorum and act on the verdict.

        Returns: False if the read did not show our registration: try again
        Raises:  RegistrationSuperseded
        """
        try:
            listed = await self._store.list_broker(self._pod_name)
            if not listed.items:
                self._report.waiting_for("own Broker object", "it does not exist")
                return False
            found = listed.items[0]
            match judge_registration(self._own, found.registration):
                case RegistrationVerdict.ANOTHERS:
                    raise RegistrationSuperseded(f"Broker {found.name}: {found.registration}")
                case RegistrationVerdict.MISSING:
                    await self._write_back(found)
                case RegistrationVerdict.OURS:
                    pass
        except RegistrationSuperseded:
            raise
        except CoordinationError as error:
            self._report.waiting_for("own Broker object", error)
            return False
        self._version = listed.resource_version
        self._follow(found)
        return True

    async def _write_back(self, found: StoredBroker) -> None:
        """Restore our registration in an object that has none, or that of an earlier process.

        A later process may have registered before the object was deleted. Its epoch is then in
        an ISR entry, and that process writes its own registration back.
        """
        highest = await self._store.highest_entry_epoch(self._own.broker_id)
        if highest > self._own.broker_epoch:
            raise RegistrationSuperseded(f"Broker {found.name}: an ISR entry has epoch {highest}")
        await self._store.put_broker_status(found, self._news.added_to(self._own))
        _log.warning("registration written back", extra=fields(broker=found.name))
