"""The simulated network: values go to addresses, and senders learn what real senders learn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from strandline_simulation.fault_counts import Anomaly, FaultCounts
from strandline_simulation.network import (
    Address,
    Channel,
    Delivery,
    Network,
    OnStream,
    Refused,
    StreamEnded,
)
from strandline_simulation.plan import ANY_PEER, Conditions, Timing
from strandline_simulation.present_conditions import PresentConditions
from strandline_simulation.virtual_time import VirtualTime
from tests.simulation.directed import JOIN_BELOW_EPOCH_START

ONE, TWO = Address(1), Address(2)
BREAK_DETECTED_MS = 50
SILENCE_DETECTED_MS = 200
TIMING = Timing(break_detected_ms=BREAK_DETECTED_MS, session_timeout_ms=SILENCE_DETECTED_MS)
PLAN = replace(JOIN_BELOW_EPOCH_START, timing=TIMING)


@dataclass
class Ear:
    """An endpoint that keeps the values that it gets, and their times."""

    time: VirtualTime
    received: list[object] = field(default_factory=list)
    heard_ms: list[int] = field(default_factory=list)

    def receive(self, source: Address, value: object) -> None:
        del source
        self.received.append(value)
        self.heard_ms.append(self.time.now_ms)


class Lab:
    """A network with an endpoint at the addresses ONE and TWO."""

    def __init__(self, conditions: Conditions | None = None) -> None:
        self.time = VirtualTime()
        self.fault_counts = FaultCounts()
        self.network = Network(
            self.time,
            PLAN,
            conditions=PresentConditions(conditions or Conditions()),
            fault_counts=self.fault_counts,
        )
        self.one, self.two = Ear(self.time), Ear(self.time)
        self.network.register(ONE, self.one)
        self.network.register(TWO, self.two)

    def send(self, source: Address, destination: Address, value: object) -> None:
        self.network.send(source, destination, value, Channel.CLIENT)

    def open(self) -> int:
        return self.network.open_stream(ONE, TWO, Channel.SESSION)

    def run(self) -> None:
        while self.time.run_next():
            pass


def test_a_cut_loses_one_direction_and_ends() -> None:
    lab = Lab()
    lab.network.cut(1, 2, until_ms=10)
    lab.send(ONE, TWO, "lost")
    lab.send(TWO, ONE, "back")
    lab.send(ONE, ONE, "self")
    lab.time.at(10, lab.send, ONE, TWO, "later")
    lab.run()
    assert lab.two.received == ["later"]
    assert sorted(map(str, lab.one.received)) == ["back", "self"]


def test_a_broker_can_be_cut_off_from_all_others() -> None:
    lab = Lab()
    lab.network.cut(ANY_PEER, 2, until_ms=10)
    lab.send(ONE, TWO, "lost")
    lab.send(TWO, ONE, "hello")
    lab.run()
    assert (lab.one.received, lab.two.received) == (["hello"], [])


def test_first_copies_keep_their_order_and_late_ones_do_not() -> None:
    lab = Lab(Conditions(delay_max_ms=20, duplicates=500, slow=100, slow_max_ms=200))
    stream = lab.open()
    for number in range(100):
        lab.network.send_on(stream, ONE, number, Delivery.REPEATABLE)
    lab.run()
    received = [value.message for value in lab.two.received if isinstance(value, OnStream)]
    assert list(dict.fromkeys(received)) != received
    assert set(received) == set(range(100))
    assert len(received) == 100 + lab.fault_counts[Anomaly.MESSAGE_REPEATED] > 100


def test_only_values_that_may_repeat_come_twice() -> None:
    lab = Lab(Conditions(duplicates=1_000, slow_max_ms=5))
    stream = lab.open()
    lab.network.send_on(stream, ONE, "hello")
    lab.run()
    assert lab.two.received == [OnStream(stream=stream, message="hello")]


def test_a_lost_message_breaks_its_stream_at_both_ends() -> None:
    lab = Lab()
    stream = lab.open()
    lab.network.cut(2, 1, until_ms=10)
    lab.network.send_on(stream, TWO, "lost")
    lab.run()
    broken = StreamEnded(stream=stream)
    assert (lab.one.received, lab.two.received) == ([broken], [broken])
    assert lab.one.heard_ms == [BREAK_DETECTED_MS]
    lab.network.send_on(stream, ONE, "over")
    lab.run()
    assert lab.two.received == [broken]


def test_a_lost_heartbeat_breaks_nothing() -> None:
    lab = Lab()
    stream = lab.open()
    lab.network.cut(1, 2, until_ms=10)
    lab.network.send_on(stream, ONE, "beat", Delivery.SKIPPABLE)
    lab.run()
    assert (lab.one.received, lab.two.received) == ([], [])


def test_the_other_end_alone_hears_that_a_stream_was_closed() -> None:
    lab = Lab()
    stream = lab.open()
    lab.network.close_stream(stream, ONE)
    lab.run()
    assert (lab.one.received, lab.two.received) == ([], [StreamEnded(stream=stream)])


def test_a_value_under_way_when_its_stream_closed_still_arrives() -> None:
    lab = Lab(Conditions(delay_min_ms=5, delay_max_ms=5))
    stream = lab.open()
    lab.network.send_on(stream, TWO, "late")
    lab.network.close_stream(stream, ONE)
    lab.run()
    assert lab.one.received == [OnStream(stream=stream, message="late")]


def test_without_an_endpoint_a_value_is_refused_and_a_stream_breaks() -> None:
    lab = Lab()
    lab.network.unregister(TWO)
    stream = lab.open()
    lab.send(ONE, TWO, "probe")
    lab.network.send_on(stream, ONE, "hello")
    lab.run()
    assert lab.one.received == [Refused(value="probe"), StreamEnded(stream=stream)]


def test_a_host_without_power_stays_silent_until_it_has_power_again() -> None:
    lab = Lab()
    lab.network.power_off(2)
    lab.send(ONE, TWO, "silence")
    lab.run()
    assert lab.one.received == []
    lab.network.power_on(2)
    lab.send(ONE, TWO, "refusal")
    lab.run()
    assert lab.one.received == [Refused(value="refusal")]


@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "hidden"])
def test_the_other_end_hears_of_a_death_late_if_the_network_hides_it(hidden: bool) -> None:
    lab = Lab()
    stream = lab.open()
    if hidden:
        lab.network.power_off(2)
    else:
        lab.network.end_process(2)
    lab.run()
    assert lab.one.received == [StreamEnded(stream=stream)]
    assert (lab.one.heard_ms[0] == SILENCE_DETECTED_MS) is hidden
    assert lab.two.received == []


def test_a_value_sent_to_one_process_does_not_reach_a_later_one() -> None:
    lab = Lab()
    former, later = Ear(lab.time), Ear(lab.time)
    lab.network.register(Address(2, 1), former)
    lab.send(ONE, Address(2, 1), "response")
    lab.network.end_process(2)
    lab.network.register(Address(2, 2), later)
    lab.network.register(TWO, later)
    lab.run()
    assert (former.received, later.received, lab.one.received) == ([], [], [])
