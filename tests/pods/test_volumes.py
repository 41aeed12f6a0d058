"""Volumes of running brokers that are full, and that grow: devices, file systems and kubelets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from strandline_cli.commands import CommandFailed
from strandline_cli.release import BROKERS
from strandline_operator.resources import DATA_PATH
from strandline_operator.status import VOLUMES_FULL
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.installed import Installed, release_of

pytestmark = pytest.mark.pods

CLASS = "sized"
"""Its volumes are as small as they say, and grow."""
FIRST, SECOND, THIRD = 512, 1024, 1536
"""Sizes in MiB. Below 10Gi a growth also restarts brokers, whose grace period follows the size."""
OVERHEAD = 0.85
"""Part of a volume that its file system leaves to files, at least."""
GROWTH_LIMIT_MS = 300_000
FILL_SECONDS = 120
FILL = f"dd if=/dev/zero of={DATA_PATH}/filler bs=1M"
SPACE = (
    "import os, sys; found = os.statvfs(sys.argv[1]); "
    "print(found.f_blocks * found.f_frsize >> 20, found.f_bavail * found.f_frsize >> 20)"
)


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release whose brokers have small volumes."""
    storage = "defaultCluster.spec.storage"
    small = (f"{storage}.storageClassName={CLASS}", f"{storage}.size={FIRST}Mi")
    with release_of(cluster, "volumes", *small) as made:
        yield made


def space(installed: Installed, broker: int) -> tuple[int, int]:
    """Return size and free space of a broker's file system in MiB, as the broker sees them."""
    run = ("python", "-c", SPACE, DATA_PATH)
    found = installed.kubernetes.exec(f"default-{broker}", *run, container="broker")
    size, free = map(int, found.split())
    return size, free


def resize(installed: Installed, size: int) -> None:
    """Ask for larger volumes, and wait until files have the room and the cluster is at rest."""
    patch = json.dumps({"spec": {"storage": {"size": f"{size}Mi"}}})
    command = ("patch", "brokercluster", "default", "--type=merge", f"--patch={patch}")
    installed.kubernetes.kubectl(*command)

    def has_grown() -> bool:
        sizes = [space(installed, broker)[0] for broker in range(BROKERS)]
        assert min(sizes) > size * OVERHEAD, sizes
        found = installed.kubernetes.get("brokercluster", "default")
        ready = {each["type"]: each for each in found["status"]["conditions"]}
        assert found["metadata"]["generation"] == found["status"]["observedGeneration"]
        assert ready["Rolling"]["reason"] == "RollingDone", ready["Rolling"]
        assert ready["Ready"]["status"] == "True", ready["Ready"]
        return True

    mistaken = (CommandFailed, AssertionError)
    eventually(has_grown, GROWTH_LIMIT_MS, f"volumes of {size} MiB", retry_on=mistaken)


def test_volumes_grow_under_load_and_nothing_is_lost(installed: Installed) -> None:
    with installed.under_load("grown") as run:
        for broker in range(BROKERS):
            assert space(installed, broker)[0] < FIRST
        run.short_fault("volumes grow", partial(resize, installed, SECOND))
        run.judged()


@pytest.mark.long
def test_full_volumes_grow_and_records_are_taken_again(installed: Installed) -> None:
    with installed.under_load("full") as run:
        acked = run.acked()

        def fill_and_grow() -> None:
            for broker in range(BROKERS):
                with pytest.raises(CommandFailed, match="No space left on device"):
                    fill(installed, broker)
            # Nobody leads what nobody may write to; the load waits.
            eventually(partial(is_full, installed), GROWTH_LIMIT_MS, "full volumes")
            resize(installed, THIRD)

        run.fault("full volumes grow", fill_and_grow, limit_seconds=GROWTH_LIMIT_MS / 1000)
        run.wait_for_acks(1_000)
        assert run.acked() > acked
        run.judged()


def fill(installed: Installed, broker: int) -> None:
    """Write zeros beside the logs until there is no room."""
    pod = f"default-{broker}"
    installed.kubernetes.exec(pod, "sh", "-c", FILL, container="broker", limit_seconds=FILL_SECONDS)


def is_full(installed: Installed) -> bool:
    """Tell whether the cluster says that brokers refuse records for want of space."""
    conditions = installed.kubernetes.get("brokercluster", "default")["status"]["conditions"]
    return any(each["type"] == VOLUMES_FULL and each["status"] == "True" for each in conditions)
