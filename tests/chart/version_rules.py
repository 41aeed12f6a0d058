"""The CEL rule of spec.version: from 0.1.0 to a neighbouring release, and no further."""

from __future__ import annotations

from typing import Final

from tests.chart.cases import GONE, Rule

VERSION_RULES: Final = [
    Rule(
        kind="BrokerCluster",
        message="spec.version may be at most one release before or after status.version, because "
        "only brokers of neighbouring releases run side by side",
        on="spec",
        refused={"spec.version": refused},
        accepted={"spec.version": accepted},
    )
    for refused, accepted in (
        ("0.3.0", "0.2.7"),
        ("1.1.0", "1.0.2"),
        ("2.0.0", "0.1.1-rc1"),
        ("0.30.0", GONE),
    )
]
