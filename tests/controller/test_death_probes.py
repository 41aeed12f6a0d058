"""The one rule of refused probes, for brokers and for the controller."""

from __future__ import annotations

import pytest

from strandline.controller.death_probes import proves_death
from strandline.controller.events import ProbeVerdict


@pytest.mark.parametrize(
    ("verdict", "refusals_before", "is_dead"),
    [
        (ProbeVerdict.OTHER_INCARNATION, 0, True),
        (ProbeVerdict.REFUSED, 0, False),
        (ProbeVerdict.REFUSED, 1, False),
        (ProbeVerdict.REFUSED, 2, True),
        (ProbeVerdict.ANSWERED, 2, False),
        (ProbeVerdict.NO_ANSWER, 2, False),
    ],
)
def test_a_process_is_dead_after_three_refusals_or_behind_another_incarnation(
    verdict: ProbeVerdict, refusals_before: int, is_dead: bool
) -> None:
    judged = proves_death(verdict, refusals_before=refusals_before, refused_probes_dead=3)
    assert judged is is_dead
