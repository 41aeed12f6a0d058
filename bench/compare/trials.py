"""The trials of the comparison: what is done to one cluster, and the values that it gives.

Each trial makes a topic of its own and deletes it, so that none meets the logs of another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from .bulk import words_of
from .cluster import BROKERS, Cluster, wait
from .strandline_cluster import StrandlineCluster
from .used import Usage, Used, resident_mib

TRIAL_LIMIT_SECONDS: Final = 600
BULK: Final = ("produce", "consume")
IDLE_TOPIC: Final = "idle"
IDLE_PARTITIONS: Final = 1_000
IDLE_SECONDS: Final = 30
LATENCY_SECONDS: Final = 20
FAULT_RATE: Final = {6: 20, 100: 2}
"""Records a second and partition, by the number of partitions: about as many for the brokers in
either case. At 2,000 a second two cores had no time left for a failover: records waited for 4 s
before the fault, and at 500 a second the brokers took three quarters of the machine."""
SCRAPES: Final = 50
KIB: Final = 1 << 10
BALLAST_BYTES: Final = 3 << 30
COLD_SECONDS: Final = 20

Values = dict[str, float]
Trial = Callable[["Machine", Cluster], Values]


@dataclass(slots=True)
class Machine:
    """Both clusters, what the bench counts as its own, and how pages are before a bulk trial."""

    clusters: tuple[Cluster, ...]
    bulk: Path
    """The client of bulk trials."""
    mib: int
    cold_pages: bool
    used: list[Used] = field(default_factory=list)
    """Of the trial that runs."""
    topics: int = 0

    def new_topic(self, cluster: Cluster, partitions: int) -> str:
        """Create a topic with a name that was not used before."""
        self.topics += 1
        name = f"t{self.topics}"
        cluster.create_topic(name, partitions)
        return name

    def driven(self, cluster: Cluster, trial: str, **words: Any) -> tuple[dict[str, Any], Used]:
        """Run the driver against a cluster; its figures, and what was used meanwhile."""
        usage = Usage()
        with self.driver(cluster, trial, **words) as driver:
            found = result_of(driver)
        return found, self.note(usage, cluster, [driver.pid])

    def driver(self, cluster: Cluster, trial: str, **words: Any) -> subprocess.Popen[str]:
        """Start the driver."""
        given = {"bootstrap": cluster.bootstrap, **words}
        command = [sys.executable, "-m", "bench.compare.driver", trial, json.dumps(given)]
        if trial in BULK:
            command = words_of(self.bulk, trial, given)
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def note(self, usage: Usage, cluster: Cluster, beside: Iterable[int] = ()) -> Used:
        """Note what was used since a look, for the verdict on the trial."""
        known = [pid for each in self.clusters for pid in [*each.pids(), *each.pids_beside()]]
        used = usage.since(brokers=cluster.pids(), known=[*known, *beside])
        self.used.append(used)
        return used

    def settle_pages(self) -> None:
        """Bring free pages into the state that bulk trials begin with, the same for both clusters.

        A virtual machine may have given free pages back, and then their first use costs more.
        """
        if self.cold_pages:
            time.sleep(COLD_SECONDS)
        else:
            subprocess.run([sys.executable, "-c", f"b'x' * {BALLAST_BYTES}"], check=True)


def result_of(driver: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the driver's end and return what it printed.

    Raises:  subprocess.SubprocessError if it failed, or did not end in time
    """
    printed, _ = driver.communicate(timeout=TRIAL_LIMIT_SECONDS)
    if driver.returncode:
        raise subprocess.CalledProcessError(driver.returncode, driver.args)
    found: dict[str, Any] = json.loads(printed)
    return found


def bulk(
    machine: Machine, cluster: Cluster, *, partitions: int, value_bytes: int = KIB, share: int = 1
) -> Values:
    """Produce as fast as it goes, then read it all; MB/s, and the brokers' CPU seconds per GB.

    Beside them, for the lines of the rounds: which part the kernel used; page faults, and bytes
    that the kernel reclaimed, per MB produced; the brokers' CPU seconds per GB read.
    """
    topic, mib = machine.new_topic(cluster, partitions), machine.mib // share
    machine.settle_pages()
    what = {"topic": topic, "partitions": partitions, "mib": mib}
    made, used = machine.driven(cluster, "produce", value_bytes=value_bytes, **what)
    read, used_to_read = machine.driven(cluster, "consume", **what | {"mib": mib * 9 // 10})
    cluster.delete_topic(topic)
    reclaimed = {} if used.reclaimed is None else {"reclaimed": used.reclaimed / made["bytes"]}
    return {
        "produce": made["bytes"] / made["seconds"] / 1e6,
        "cpu": used.brokers / (made["bytes"] / 1e9),
        "system": used.system / (made["bytes"] / 1e9),
        "faults": used.faults / (made["bytes"] / 1e6),
        "consume": read["bytes"] / read["seconds"] / 1e6,
        "reading": used_to_read.brokers / (read["bytes"] / 1e9),
        **reclaimed,
    }


def latency(machine: Machine, cluster: Cluster, *, rate: int) -> Values:
    """Produce 100 B at a rate to 12 partitions; ms of a record, and the brokers' CPU for it."""
    topic = machine.new_topic(cluster, 12)
    words = {"topic": topic, "partitions": 12, "rate": rate, "seconds": LATENCY_SECONDS}
    found, used = machine.driven(cluster, "latency", **words)
    cluster.delete_topic(topic)
    return {**found, "cpu": 1000 * used.brokers / (rate * used.seconds)}


def idle(machine: Machine, cluster: Cluster, *, partitions: int) -> Values:
    """Look at brokers that nobody asks anything; % of a core of all three, MiB of one."""
    topic = machine.new_topic(cluster, partitions) if partitions else ""
    usage = Usage()
    time.sleep(IDLE_SECONDS)
    used = machine.note(usage, cluster)
    memory = resident_mib(cluster.pids()) / BROKERS
    if topic:
        cluster.delete_topic(topic)
    return {"cpu": 100 * used.brokers / used.seconds, "rss": memory}


def kill(machine: Machine, cluster: Cluster, *, partitions: int, controller: bool) -> Values:
    """Kill a leader that is not the controller, or the controller, under a default client."""
    topic = machine.new_topic(cluster, partitions)
    usage = Usage()
    words = {"topic": topic, "partitions": partitions, "rate": FAULT_RATE[partitions]}
    with machine.driver(cluster, "fault", **words) as driver:
        if driver.stdin is None or driver.stdout is None:
            raise AssertionError
        if driver.stdout.readline() != "ready\n":
            raise subprocess.CalledProcessError(driver.wait(), "fault")
        hit = cluster.controller()
        if not controller:
            hit = min({*cluster.leaders(topic).values()} - {hit})
        cluster.kill(hit)
        driver.stdin.write("killed\n")
        found = result_of(driver)
    machine.note(usage, cluster, [driver.pid])
    cluster.start()
    cluster.wait_full(topic, partitions)
    cluster.delete_topic(topic)
    return {"longest": found["longest"], "before": found["before"]}


def start(machine: Machine, cluster: Cluster) -> Values:
    """Kill all brokers and start them; seconds until a record is acknowledged."""
    topic = machine.new_topic(cluster, 1)
    for broker in range(BROKERS):
        cluster.kill(broker)
    usage, began = Usage(), time.time()
    cluster.start()
    with machine.driver(cluster, "first_ack", topic=topic) as driver:
        found = result_of(driver)
    machine.note(usage, cluster, [driver.pid])
    cluster.wait_full(topic, 1)
    cluster.delete_topic(topic)
    return {"first": found["at"] - began}


def failover(machine: Machine, cluster: Cluster) -> Values:
    """Kill a broker that leads a third of 1,000 partitions; seconds until each has a leader."""
    topic = machine.new_topic(cluster, IDLE_PARTITIONS)
    before = cluster.leaders(topic)
    hit = min({*before.values()} - {cluster.controller()})
    admin = cluster.admin()
    usage, began = Usage(), time.monotonic()
    cluster.kill(hit)
    wait(
        lambda: not {hit, -1} & {*cluster.leaders(topic, admin=admin).values()},
        "a leader for each partition",
    )
    found = {"last": time.monotonic() - began}
    machine.note(usage, cluster)
    cluster.start()
    cluster.wait_full(topic, IDLE_PARTITIONS)
    cluster.delete_topic(topic)
    return found


def scrape(machine: Machine, cluster: Cluster) -> Values:
    """Scrape each broker; ms of CPU for one. Kafka has no such page without a plugin.

    A leader shows more than a follower, and a broker that was killed leads nothing for a while: all
    three brokers together always lead every partition once.
    """
    if not isinstance(cluster, StrandlineCluster):
        return {}
    size = cluster.scrape()  # the beginnings of all lines are made once
    usage = Usage()
    for _ in range(SCRAPES):
        cluster.scrape()
    used = machine.note(usage, cluster)
    return {"cpu": 1000 * used.brokers / (SCRAPES * BROKERS), "bytes": size / BROKERS}


ALONE: Final[dict[str, Trial]] = {
    "bulk-1": partial(bulk, partitions=1),
    "bulk-6": partial(bulk, partitions=6),
    "bulk-12": partial(bulk, partitions=12),
    "bulk-333": partial(bulk, partitions=333),
    "small-1": partial(bulk, partitions=1, value_bytes=100, share=4),
    "small-6": partial(bulk, partitions=6, value_bytes=100, share=4),
    "small-12": partial(bulk, partitions=12, value_bytes=100, share=4),
    "small-333": partial(bulk, partitions=333, value_bytes=100, share=4),
    "latency-100": partial(latency, rate=100),
    "latency-1000": partial(latency, rate=1_000),
    "idle-12": partial(idle, partitions=12),
}
"""Trials of clusters with one topic."""
BESIDE: Final[dict[str, Trial]] = {
    "beside-100": partial(latency, rate=100),
    "beside-1000": partial(latency, rate=1_000),
    "idle-1000": partial(idle, partitions=0),
    "scrape-1000": scrape,
}
"""Trials of clusters that also have a topic of 1,000 idle partitions."""
ENDING: Final[dict[str, Trial]] = {
    "kill-leader-6": partial(kill, partitions=6, controller=False),
    "kill-leader-100": partial(kill, partitions=100, controller=False),
    "kill-controller": partial(kill, partitions=6, controller=True),
    "start": start,
    "failover-1000": failover,
}
"""Trials that end processes, after all others: a Java that began anew is not warm."""
