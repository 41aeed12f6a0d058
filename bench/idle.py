"""The CPU that idle brokers use."""

from __future__ import annotations

import time

from strandline_cli.cluster_view import partition_of
from strandline_cli.commands import NotRecovered
from strandline_cli.release import BROKERS, PARTITIONS, READY_SECONDS, apply_topic

from .figures import IDLE_CPU
from .processes import cpu_percent, look
from .run import LOAD, BenchRun

IDLE_PARTITIONS = 100
SETTLE_SECONDS = 20.0
"""Pause after the last replica is in sync: flushes and checkpoints of the start are over then."""
WINDOW_SECONDS = 60.0


def measure_idle(run: BenchRun) -> None:
    """Note the CPU of all three brokers together, without a client, a scrape or a watcher."""
    kubernetes, screen = run.kubernetes, run.screen
    kubernetes.kubectl("delete", "pod", LOAD, limit_seconds=READY_SECONDS)
    # Two topics exist already; each partition has three replicas on three brokers.
    apply_topic(kubernetes, "idle", IDLE_PARTITIONS - 2 * PARTITIONS)

    def have_full_isrs() -> bool:
        found = [
            partition_of(each) for each in kubernetes.get("partitions.strandline.dev")["items"]
        ]
        return len(found) == IDLE_PARTITIONS and all(each.has_full_isr for each in found)

    if not screen.wait(have_full_isrs, READY_SECONDS):
        raise NotRecovered(f"{IDLE_PARTITIONS} partitions did not come to have full ISRs")
    time.sleep(SETTLE_SECONDS)
    before = [look(kubernetes, broker) for broker in range(BROKERS)]
    time.sleep(WINDOW_SECONDS)
    after = [look(kubernetes, broker) for broker in range(BROKERS)]
    used = [cpu_percent(*pair) for pair in zip(before, after, strict=True)]
    run.note(IDLE_CPU, sum(used), brokers=used, seconds=WINDOW_SECONDS)
