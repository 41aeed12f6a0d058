"""When a fault is over, and when a load has settled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_cli.cluster_view import ClusterSeen, ClusterView, PartitionSeen, PodSeen
from strandline_cli.commands import CommandFailed, NotRecovered
from strandline_cli.kubectl import Kubernetes
from strandline_cli.load_pod import LoadPod, Report, end_load
from strandline_cli.under_load import UnderLoad, kill_broker

PARTITION = PartitionSeen(number=0, leader=0, leader_epoch=1, isr=(0, 1, 2), replicas=(0, 1, 2))
POD = PodSeen(uid="u", ready=True, restarts=0, image="i")
WHOLE = ClusterSeen(
    partitions={0: PARTITION}, pods={f"default-{broker}": POD for broker in range(3)}
)
SHRUNK = replace(WHOLE, partitions={0: replace(PARTITION, isr=(1, 2))})


class StillView(ClusterView):
    """A view without a cluster, whose contents a test sets."""

    def __init__(self) -> None:
        self.now = WHOLE
        self.changed: list[int] = []
        self.texts: list[str] = []

    def seen(self) -> ClusterSeen:
        return self.now

    def say(self, text: str) -> None:
        self.texts.append(text)

    def mark(self) -> None:
        self.changed = []

    def changed_since_mark(self) -> list[int]:
        return self.changed


class StillLoad(LoadPod):
    """A load without a pod: each report has a hundred acknowledgements more."""

    def __init__(self) -> None:
        self.total = 0
        self.silent_ms = 10
        self.ended_with: int | None = 0

    def last(self) -> Report:
        self.total += 100
        return Report(
            at_ms=0,
            acked={0: self.total},
            silent_ms={0: self.silent_ms},
            gap_ms={0: 20},
        )

    def mark(self) -> None:
        pass

    def gaps_since_mark(self) -> dict[int, int]:
        return {0: 20}

    def stop(self) -> None:
        pass

    def exit_code(self) -> int | None:
        return self.ended_with


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Check the condition once for each second, without a pause."""
    return any(condition() for _ in range(round(seconds)))


@pytest.fixture
def view() -> StillView:
    return StillView()


@pytest.fixture
def load() -> StillLoad:
    return StillLoad()


@pytest.fixture
def loaded(view: StillView, load: StillLoad) -> UnderLoad:
    kubernetes = Kubernetes(Path("/k"), "ours")
    return UnderLoad(kubernetes=kubernetes, view=view, load=load, wait=wait)


def test_a_fault_is_over_when_something_changed_and_all_is_healthy_again(
    loaded: UnderLoad, view: StillView
) -> None:
    fault = loaded.fault("break it", lambda: view.changed.append(0), broker=1)
    assert loaded.faults == [fault]
    assert (fault.name, fault.broker, fault.changed, fault.longest_gap_ms) == (
        *("break it", 1, (0,), 20),
    )
    assert fault.acked_before < fault.acked_after
    assert view.texts == ["FAULT break it", "over: longest gap 20 ms"]


def test_a_fault_that_changes_nothing_is_kept_so_that_the_run_is_vacuous(
    loaded: UnderLoad,
) -> None:
    assert loaded.fault("touch nothing", lambda: None).changed == ()
    assert len(loaded.faults) == 1


def test_a_fault_that_is_not_over_in_time_says_what_is_missing(
    loaded: UnderLoad, view: StillView
) -> None:
    def inject() -> None:
        view.changed, view.now = [0], SHRUNK

    with pytest.raises(NotRecovered, match=r"break it: not over after 3 s.*ISR \[1, 2\]"):
        loaded.fault("break it", inject, limit_seconds=3)
    assert loaded.faults == []


@pytest.mark.parametrize(
    ("seen", "silent_ms", "unhealthy"),
    [
        (WHOLE, 300, []),
        (WHOLE, 301, ["partition 0: silent for 301 ms"]),
        (SHRUNK, 10, ["partition 0: leader 0, ISR [1, 2]"]),
        (replace(WHOLE, pods={"default-0": POD}), 10, ["only ['default-0'] are ready"]),
        (
            replace(WHOLE, partitions={}),
            10,
            ["not every partition has acknowledged anything"],
        ),
    ],
)
def test_an_unhealthy_part_is_named(
    loaded: UnderLoad,
    view: StillView,
    load: StillLoad,
    seen: ClusterSeen,
    silent_ms: int,
    unhealthy: list[str],
) -> None:
    view.now, load.silent_ms = seen, silent_ms
    assert loaded.unhealthy() == unhealthy
    if unhealthy:
        with pytest.raises(NotRecovered, match="never came to run well"):
            loaded.wait_healthy(1)
    else:
        loaded.wait_healthy(1)


def test_acknowledgements_are_waited_for_within_a_bound(loaded: UnderLoad) -> None:
    loaded.wait_for_acks(500, 10)
    with pytest.raises(NotRecovered, match="5000 records were not acknowledged in 10 s"):
        loaded.wait_for_acks(5_000, 10)


def test_a_load_settles_when_it_has_ended_and_every_isr_is_full(
    loaded: UnderLoad, view: StillView, load: StillLoad
) -> None:
    assert loaded.settle(1) == {0: {0, 1, 2}}
    view.now = SHRUNK
    with pytest.raises(NotRecovered, match="not every ISR is full"):
        loaded.settle(1)
    load.ended_with = None
    with pytest.raises(NotRecovered, match="did not end"):
        loaded.settle(1)


@pytest.mark.parametrize(
    ("status", "refused"),
    [(0, False), (137, False), (1, True)],
    ids=["it ends before its container", "its container ends first", "it cannot be run"],
)
def test_a_command_that_ends_its_container_may_be_killed_with_it(
    tmp_path: Path, status: int, refused: bool
) -> None:
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\nexit {status}\n")
    (tmp_path / "kubectl").chmod(0o755)
    kubernetes = Kubernetes(tmp_path / "kubeconfig", "tests", programs=tmp_path)
    with pytest.raises(CommandFailed, match="status 1:") if refused else nullcontext():
        end_load(kubernetes, "load")
    with pytest.raises(CommandFailed, match="status 1:") if refused else nullcontext():
        kill_broker(kubernetes, 0)
