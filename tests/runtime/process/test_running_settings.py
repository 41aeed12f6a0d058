"""A running broker follows its Broker object, and its registration says what came of it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from strandline.config.broker import BrokerConfig
from strandline.config.running import settings_digest
from strandline.model import BrokerId, StoredBroker
from strandline.runtime.process.registration_news import RegistrationNews
from strandline.runtime.process.running_settings import RunningSettings
from tests.runtime.process.test_killed_starts import CONFIG
from tests.runtime.process.test_registration import registration

FILL = "log.dir.fill.max"


def test_each_change_is_followed_once_and_told(caplog: pytest.LogCaptureFixture) -> None:
    news, followed = RegistrationNews(), list[BrokerConfig]()
    settings = RunningSettings(CONFIG, news)
    settings.follow(followed.append)
    with caplog.at_level(logging.INFO):
        for value in (0.5, 0.5, 7, 0.6):
            settings.tell(((FILL, value),))
    assert [each.storage.fill_max for each in followed] == [0.5, 0.6]
    assert settings.config.storage.fill_max == 0.6
    assert [record.message for record in caplog.records] == [
        "settings taken",
        "settings refused, those from before stay",
        "settings taken",
    ]
    assert (news.config_digest, news.config_refused) == (settings_digest({FILL: 0.6}), "")
    asyncio.run(asyncio.wait_for(news.change(), timeout=1))


def test_a_refused_value_is_in_the_registration_until_it_is_gone() -> None:
    news = RegistrationNews()
    settings = RunningSettings(CONFIG, news)
    settings.tell(((FILL, 0.5), ("x", 1)))
    told = news.added_to(registration())
    assert told.config_digest == settings_digest({FILL: 0.5})
    assert told.config_refused == "x: unknown setting"
    settings.tell(((FILL, 0.5),))
    assert news.added_to(registration()) == replace(told, config_refused="")


def test_a_registration_says_what_the_start_found_in_the_object() -> None:
    stored = StoredBroker(
        name="demo-0",
        resource_version="1",
        broker_id=BrokerId(0),
        registration=None,
        settings=((FILL, 0.5),),
    )
    settings = RunningSettings(CONFIG, RegistrationNews())
    assert settings.registered(stored, registration()).config_digest == settings_digest({FILL: 0.5})
    assert settings.config.storage.fill_max == 0.5
