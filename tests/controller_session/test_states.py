"""When a registration is that of the Lease's holder, and when each state is due."""

from __future__ import annotations

import pytest

from strandline.controller_session.states import (
    ConnectionState,
    Holder,
    LookingUp,
    NoHolder,
    Open,
    Probing,
    Redialling,
    due_of,
    holder_of,
)
from strandline.model import BrokerId, HolderIdentity, Registration

from .setups import ENDPOINT, KAFKA_ENDPOINT, SIGNED, registration

HOLDER = Holder(
    identity=HolderIdentity(broker_id=BrokerId(2), incarnation="uid/a"), endpoint=ENDPOINT
)


@pytest.mark.parametrize(
    ("signed", "found", "holder"),
    [
        (SIGNED, registration(), HOLDER),
        (SIGNED, registration(endpoints=(KAFKA_ENDPOINT, ENDPOINT)), HOLDER),
        (SIGNED, registration(endpoints=(KAFKA_ENDPOINT,)), None),
        (SIGNED, registration(incarnation="uid/b"), None),
        (SIGNED, None, None),
        ("", registration(), None),
        ("not-a-broker", registration(), None),
    ],
)
def test_holder_is_the_process_that_signed_and_is_registered(
    signed: str, found: Registration | None, holder: Holder | None
) -> None:
    assert holder_of(signed, found) == holder


@pytest.mark.parametrize(
    ("state", "due_ms"),
    [
        (NoHolder(), None),
        (LookingUp(lookup_id=1), None),
        (Redialling(due_ms=7), 7),
        (Open(session_id=1, holder=HOLDER, heartbeat_due_ms=5, report_due_ms=3), 5),
        (Probing(holder=HOLDER, probe_id=1, refusals=0, due_ms=None), None),
        (Probing(holder=HOLDER, probe_id=1, refusals=1, due_ms=9), 9),
    ],
)
def test_due_time_of_each_state(state: ConnectionState, due_ms: int | None) -> None:
    assert due_of(state) == due_ms
