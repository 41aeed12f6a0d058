"""How long each client library waits after kill -9 of a leader: `python -m bench.clients`.

Three brokers over an API server of their own; a topic of six partitions. In each round every
library writes to it with its defaults and acks=all, and a leader that is not the controller is
killed. A wait is the time without an acknowledgement of a partition that it led, which ends after
the kill: the next leader's election, and how the library gets to know it. The order of the
libraries turns around from round to round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.compare.strandline_cluster import StrandlineCluster
from bench.report import host_info

from .senders import LIBRARIES, NotAcknowledged, Sender

TOPIC: Final = "written"
PARTITIONS: Final = 6
PACE_SECONDS: Final = 0.01
"""Between two records of a partition, and the exactness of a wait."""
WARM_SECONDS: Final = 6.0
"""Of acknowledgements before the kill, and after it. franz-go asks for Metadata no sooner than 5 s
after it asked last (its MetadataMinAge), and a younger client would wait for the rest of them."""
LIMIT_SECONDS: Final = 60.0
"""For the first acknowledgements, for those after the kill, and for the last ones."""


class Written:
    """The records of one library: how many are under way, and when each partition took its last."""

    def __init__(self, sender: Sender) -> None:
        """Begin without records."""
        self._sender = sender
        self._under_way = 0
        self.last_seconds: dict[int, float] = {}
        self.waits: dict[int, tuple[float, float]] = {}
        """By partition: the acknowledgements before and after its longest wait."""

    def go_on(self, *, sends: bool = True) -> int:
        """Send the next records, note what came, and return how many are under way."""
        if sends:
            for partition in range(PARTITIONS):
                self._sender.send(partition)
            self._under_way += PARTITIONS
        for partition, at_seconds in self._sender.acked():
            self._under_way -= 1
            before = self.last_seconds.get(partition, at_seconds)
            longest = self.waits.get(partition, (at_seconds, at_seconds))
            if at_seconds - before >= longest[1] - longest[0]:
                self.waits[partition] = (before, at_seconds)
            self.last_seconds[partition] = at_seconds
        time.sleep(PACE_SECONDS)
        return self._under_way


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="bench.clients")
    parser.add_argument("--rounds", type=int, default=5, help="kills for each library (5)")
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=[*LIBRARIES])
    given = parser.parse_args(arguments)
    found: dict[str, list[list[float]]] = {name: [] for name in given.only}
    print(host_info())
    with tempfile.TemporaryDirectory(prefix="bench-clients-") as made:
        cluster = StrandlineCluster(Path(made))
        try:
            cluster.start()
            cluster.create_topic(TOPIC, PARTITIONS)
            for number in range(given.rounds):
                for name in given.only if number % 2 == 0 else reversed(given.only):
                    waits = _killed_under(name, cluster, Path(made))
                    print(f"{name}: {' '.join(f'{1000 * wait:.0f}' for wait in waits)} ms")
                    sys.stdout.flush()
                    found[name].append(waits)
        finally:
            cluster.stop()
    _show(found)
    return 0


def _killed_under(name: str, cluster: StrandlineCluster, folder: Path) -> list[float]:
    """Kill a leader while a library writes; return the wait of each partition that it led."""
    with LIBRARIES[name](cluster.bootstrap, TOPIC, folder) as sender:
        written = Written(sender)
        _go_on_until(lambda: len(written.last_seconds) == PARTITIONS, written)
        warm_at = time.monotonic() + WARM_SECONDS
        _go_on_until(lambda: time.monotonic() > warm_at, written)
        leaders = cluster.leaders(TOPIC)
        hit = min({*leaders.values()} - {cluster.controller()})
        led = [number for number, leader in leaders.items() if leader == hit]
        written.waits.clear()
        killed_at = time.monotonic()
        cluster.kill(hit)
        _go_on_until(
            lambda: (
                all(written.waits.get(each, (0, 0))[1] > killed_at for each in led)
                and all(each > killed_at + WARM_SECONDS for each in written.last_seconds.values())
            ),
            written,
        )
        _go_on_until(lambda: written.go_on(sends=False) == 0, written, sends=False)
    cluster.start()
    cluster.wait_full(TOPIC, PARTITIONS)
    return sorted(after - before for before, after in (written.waits[each] for each in led))


def _go_on_until(condition: Callable[[], bool], written: Written, *, sends: bool = True) -> None:
    ends = time.monotonic() + LIMIT_SECONDS
    while not condition():
        written.go_on(sends=sends)
        if time.monotonic() > ends:
            raise NotAcknowledged(f"not within {LIMIT_SECONDS:g} s: {written.last_seconds}")


def _show(found: dict[str, list[list[float]]]) -> None:
    print(f"\n{'library':<14}{'first ms':>10}{'last ms':>10}{'worst ms':>10}{'kills':>7}")
    for name, kills in found.items():
        first, last = median(each[0] for each in kills), median(each[-1] for each in kills)
        worst = max(each[-1] for each in kills)
        figures = f"{1000 * first:>10.0f}{1000 * last:>10.0f}{1000 * worst:>10.0f}"
        print(f"{name:<14}{figures}{len(kills):>7}")


if __name__ == "__main__":
    sys.exit(main())
