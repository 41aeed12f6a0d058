"""How long partitions of a killed broker are without a leader, when it led many.

`python -m bench.many_leaders` kills a broker that leads a third of `--partitions` and is not the
controller. Times go from the kill to the log lines `became leader` of the other brokers: the first
one, the median, the last one; beside them what the brokers and the control plane, etcd and API
server, used of the processors until then. `--times` repeats it; the killed broker starts again in
between.
"""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tests.support.broker_group import BrokerGroup
from tests.support.eventually import eventually

from .compare.used import Usage, pids_of
from .report import host_info
from .running_brokers import running_brokers

BROKERS = 3
TOPIC = "many"
FORMED_LIMIT_MS = 300_000
ELECTED_LIMIT_MS = 60_000


def count_of_lines(group: BrokerGroup) -> int:
    """Count the leaderships that began, without the cost of reading each line."""
    word = b'"became leader"'
    return sum(broker.log_path().read_bytes().count(word) for broker in group.brokers)


def times_of_lines(group: BrokerGroup, since: datetime) -> list[float]:
    """Return when each leadership since then began, in seconds after it."""
    times = [
        (datetime.fromisoformat(line["time"]) - since).total_seconds()
        for broker in group.brokers
        for line in broker.lines()
        if line["message"] == "became leader"
    ]
    return sorted(time for time in times if time > 0)


def kill_once(group: BrokerGroup, partitions: int) -> None:
    """Kill the broker that leads most beside the controller; print the times; start it again."""
    leaders, controller = group.leaders(TOPIC, partitions), group.controller()
    others = [number for number in range(BROKERS) if number != controller]
    killed = max(others, key=leaders.count)
    led, before = leaders.count(killed), count_of_lines(group)

    def all_lead() -> bool:
        return count_of_lines(group) - before >= led

    plane = pids_of(group.control_plane.folder)
    brokers = [each.process.pid for number, each in enumerate(group.brokers) if number != killed]
    since, usage = datetime.now(UTC), Usage()
    group.brokers[killed].kill()
    eventually(all_lead, ELECTED_LIMIT_MS, "a leader of each partition")
    brokers_used, plane_used = (usage.since(brokers=e, known=()).brokers for e in (brokers, plane))
    times = times_of_lines(group, since)
    print(
        f"{led} partitions led: first {times[0]:.2f} s, median {median(times):.2f} s,"
        f" last {times[-1]:.2f} s; processors: brokers {brokers_used:.2f} s,"
        f" control plane {plane_used:.2f} s; load {os.getloadavg()[0]:.2f}",
        flush=True,
    )
    group.start()
    group.wait_full_isr(TOPIC, partitions, FORMED_LIMIT_MS)


def main() -> None:
    """Kill a broker that leads many partitions, several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000, help="of the topic")
    parser.add_argument("--times", type=int, default=3, help="how often a broker is killed")
    parser.add_argument("--folder", type=Path, help="where the brokers write; default: /tmp")
    arguments = parser.parse_args()
    print(host_info())
    with running_brokers(arguments.folder, BROKERS) as group:
        group.create_topic(TOPIC, partitions=arguments.partitions)
        group.wait_full_isr(TOPIC, arguments.partitions, FORMED_LIMIT_MS)
        for _ in range(arguments.times):
            kill_once(group, arguments.partitions)


if __name__ == "__main__":
    main()
