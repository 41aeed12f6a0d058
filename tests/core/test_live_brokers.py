"""The processes of the last announcement are live, and no others."""

from __future__ import annotations

from strandline.core.live_brokers import LiveBrokers
from strandline.model import BrokerEpoch, BrokerId

from .samples import alive


def test_live_is_exactly_the_announced_process() -> None:
    live = LiveBrokers(alive(1))
    assert live.is_live(BrokerId(1), BrokerEpoch(1))
    assert not live.is_live(BrokerId(1), BrokerEpoch(2))
    assert not live.is_live(BrokerId(2), BrokerEpoch(1))
    assert (live.epoch_of(BrokerId(1)), live.epoch_of(BrokerId(2))) == (1, None)


def test_an_announcement_replaces_the_one_before() -> None:
    live = LiveBrokers(alive(1))
    live.replace(alive(2, epoch=3))
    assert not live.is_live(BrokerId(1), BrokerEpoch(1))
    assert live.is_live(BrokerId(2), BrokerEpoch(3))
