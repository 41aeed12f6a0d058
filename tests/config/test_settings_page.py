"""docs/configuration.md tells of every key what the code says of it."""

from __future__ import annotations

from strandline.config.broker import SETTINGS
from strandline.config.declaration import Applies
from strandline_operator.broker_settings import BROKER_KEYS

from . import settings_page


def test_the_page_is_what_the_declarations_say() -> None:
    written = settings_page.PAGE.read_text()
    assert written == settings_page.text(written), "write it: python -m tests.config.settings_page"


def test_each_key_has_one_row() -> None:
    lines = settings_page.PAGE.read_text().splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    assert {key: rows.count(key) for key in SETTINGS} == dict.fromkeys(SETTINGS, 1)


def test_these_keys_need_no_restart() -> None:
    """A new one needs a reader that takes it while it runs: `BrokerService` hands it on."""
    found = {key for key, setting in SETTINGS.items() if setting.applies is Applies.RUNNING}
    assert found == {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "log.dir.fill.max",
        "log.retention.check.interval.ms",
        "log.trash.retention.bytes",
        "log.trash.retention.ms",
    }
    assert found <= set(BROKER_KEYS.values())
