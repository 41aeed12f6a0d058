"""The silence of a holder counts only if it lasted until its Lease was taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.events import LeaseHolderProbed, ProbeVerdict
from strandline.controller.lease_observation import HolderSilent
from strandline.controller.silent_holder import HolderSilence
from strandline.model import BrokerId, HolderIdentity
from tests.support.world.values import LEASE_FREE

HOLDER = HolderIdentity(broker_id=BrokerId(1), incarnation="pod-1/1")
LEASE = replace(LEASE_FREE, holder_identity=str(HOLDER))


def probed(verdict: ProbeVerdict = ProbeVerdict.NO_ANSWER, *, request_id: int = 7) -> HolderSilence:
    silence = HolderSilence(probe_deadline_ms=500)
    probe = silence.probe(HolderSilent(identity=HOLDER, heard_ms=100), 7)
    assert (probe.broker_id, probe.incarnation, probe.deadline_ms) == (1, "pod-1/1", 500)
    silence.on_probed(LeaseHolderProbed(request_id=request_id, verdict=verdict))
    return silence


def test_probe_without_an_answer_and_a_lease_that_ran_out_prove_silence() -> None:
    silence = probed()
    silence.on_may_take(LEASE, changed_ms=100)
    assert silence.proved is not None
    assert (silence.proved.identity, silence.proved.heard_ms) == (HOLDER, 100)


@pytest.mark.parametrize(
    "verdict", [ProbeVerdict.ANSWERED, ProbeVerdict.REFUSED, ProbeVerdict.OTHER_INCARNATION]
)
def test_no_other_verdict_proves_silence(verdict: ProbeVerdict) -> None:
    assert probed(verdict).proved is None


def test_verdict_that_is_out_or_of_another_probe_proves_nothing() -> None:
    assert probed(request_id=6).proved is None


@pytest.mark.parametrize(
    ("holder", "changed_ms"), [("", 100), ("broker-2/pod-2/1", 100), (str(HOLDER), 101)]
)
def test_released_or_renewed_lease_ends_the_silence(holder: str, changed_ms: int) -> None:
    silence = probed()
    silence.on_may_take(replace(LEASE, holder_identity=holder), changed_ms=changed_ms)
    assert silence.proved is None


def test_lease_that_was_not_taken_at_the_first_try_ends_the_silence() -> None:
    silence = probed()
    silence.forget()
    assert silence.proved is None
