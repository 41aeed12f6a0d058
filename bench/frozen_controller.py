"""A frozen process that was controller and leader at once: until both roles are filled again.

`python -m bench.frozen_controller` freezes the controller of three brokers, five times by default.
Times are those of the brokers' log lines, `timing: demo`; the aim is 3.5 s.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import median

from tests.support.both_roles import AIM_SECONDS, freeze_both_roles
from tests.support.broker_group import BrokerGroup
from tests.support.load import RATE, LoadProcess

from .report import host_info
from .running_brokers import running_brokers

BROKERS = 3


def freeze_once(group: BrokerGroup, topic: str) -> float:
    """Freeze the controller under load, print the moments, and return the total in seconds.

    The topic is new, so each broker leads the partition of its own number.
    """
    group.create_topic(topic, partitions=BROKERS)
    group.wait_full_isr(topic, BROKERS)
    load = LoadProcess(group, topic, BROKERS)
    old, roles = freeze_both_roles(group, topic)
    print(f"  broker {old}: {roles}; load {os.getloadavg()[0]:.2f}", flush=True)
    load.wait_for_acks(RATE)
    group.brokers[old].thaw()
    group.wait_full_isr(topic, BROKERS)
    load.judged(silent=[old])
    return roles.total_seconds


def main() -> None:
    """Freeze the controller several times under load, and compare with the aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="how often the controller is frozen")
    parser.add_argument("--folder", type=Path, help="where the brokers write; default: /tmp")
    arguments = parser.parse_args()
    print(host_info())
    with running_brokers(arguments.folder, BROKERS) as group:
        totals = [freeze_once(group, f"both-frozen-{n}") for n in range(arguments.times)]
    verdict = "met" if max(totals) <= AIM_SECONDS else "missed"
    print(
        f"both roles filled: median {median(totals):.2f} s, least {min(totals):.2f}, "
        f"most {max(totals):.2f}; aim {AIM_SECONDS} s, {verdict}"
    )


if __name__ == "__main__":
    main()
