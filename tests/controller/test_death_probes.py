"""The one rule of refused probes, for brokers and for the controller."""

from __future__ import annotations

import pytest

from strandline.controller.death_probes import DeathEvidence, judge_probe
from strandline.controller.events import ProbeVerdict


@pytest.mark.parametrize(
    ("verdict", "refusals_before", "evidence"),
    [
        (ProbeVerdict.OTHER_INCARNATION, 0, DeathEvidence.PROVEN),
        (ProbeVerdict.REFUSED, 0, DeathEvidence.NOT_YET),
        (ProbeVerdict.REFUSED, 1, DeathEvidence.NOT_YET),
        (ProbeVerdict.REFUSED, 2, DeathEvidence.PROVEN),
        (ProbeVerdict.ANSWERED, 2, DeathEvidence.NONE),
        (ProbeVerdict.NO_ANSWER, 2, DeathEvidence.NONE),
    ],
)
def test_a_process_is_dead_after_three_refusals_or_behind_another_incarnation(
    verdict: ProbeVerdict, refusals_before: int, evidence: DeathEvidence
) -> None:
    judged = judge_probe(verdict, refusals_before=refusals_before, refused_probes_dead=3)
    assert judged is evidence
