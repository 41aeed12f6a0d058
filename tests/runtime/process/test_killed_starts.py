"""A start that dies after any of its disk operations takes nothing from the next start.

The disk operations of the start are counted where they enter the operating system, and the start is
killed behind the k-th, for every k.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from strandline.config.broker import BrokerIdentity, Ports, broker_config
from strandline.core.effects import PersistedPartition
from strandline.kube.cluster_store import ClusterStore
from strandline.log.checkpoint import HighWatermarkCheckpoint, RecoveryPointCheckpoint
from strandline.log.data_directory import DataDirectory, MetaProperties
from strandline.log.log_segments import LogEnvironment
from strandline.log.segment import SegmentPool
from strandline.log.state_file import BrokerState
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    Registration,
    StoredBroker,
)
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.process.registration import Registrar
from strandline.runtime.process.registration_news import RegistrationNews
from strandline.runtime.process.running_settings import RunningSettings
from strandline.runtime.storage.loaded_store import LoadedStore, load_store
from strandline.start_decision import FoundOnDisk, StartEvidence
from tests.log.support.logs import SMALL_INDEX, TP, Workshop, fill
from tests.support.killed import Killed, killed_behind

MOUNT = "ext4/sda 9"
LOG_DIR_ID = "11111111-2222-4333-8444-555555555555"
EPOCH = BrokerEpoch(5)
CLEAN_SINCE = BrokerEpoch(2)
OPERATIONS_MAX = 200
MEANT_OPERATIONS = 5
"""A start that does no more was not killed anywhere."""
CONFIG = broker_config(
    {},
    identity=BrokerIdentity(
        cluster="demo",
        broker_id=BrokerId(0),
        namespace="strandline",
        pod_name="demo-0",
        pod_uid="pod",
        pod_ip="10.0.0.1",
    ),
    ports=Ports(),
)


class Cluster:
    """The Broker object of the id, as the API server keeps it."""

    def __init__(self) -> None:
        self.stored = _registration(EPOCH, CLEAN_SINCE, "pod/before")

    async def get_broker(self, name: str) -> StoredBroker:
        return StoredBroker(
            name=name, resource_version="1", broker_id=BrokerId(0), registration=self.stored
        )

    async def highest_entry_epoch(self, _: BrokerId) -> BrokerEpoch:
        return EPOCH

    async def put_broker_status(self, _: StoredBroker, written: Registration) -> StoredBroker:
        # Each start of a test has a name of its own.
        self.stored = replace(written, incarnation="pod/before")
        return await self.get_broker("demo-0")


def _registration(epoch: BrokerEpoch, clean_since: BrokerEpoch, incarnation: str) -> Registration:
    return Registration(
        broker_id=BrokerId(0),
        broker_epoch=epoch,
        clean_since_epoch=clean_since,
        incarnation=incarnation,
        endpoints=(),
        log_dir_id=LOG_DIR_ID,
        boot_id="boot-1",
    )


@contextmanager
def opened(root: Path) -> Iterator[DataDirectory]:
    directory = DataDirectory.open(root)
    try:
        yield directory
    finally:
        directory.close()


def start(directory: DataDirectory, cluster: Cluster, *, boot_id: str) -> None:
    """Start a broker on a directory, as `lifecycle` does, up to its first append."""
    meta, state = directory.read_meta(), directory.read_state()
    assert meta is not None
    environment = LogEnvironment(pool=SegmentPool(open_segments_max=128), limits=SMALL_INDEX)

    async def load(evidence: StartEvidence, before_loss: Callable[[], None]) -> LoadedStore:
        return load_store(
            directory, state, environment, clean=evidence.clean, before_loss=before_loss
        )

    registrar = Registrar(
        config=CONFIG,
        store=cast("ClusterStore", cluster),
        directory=directory,
        disk=FoundOnDisk(
            log_dir_id=meta.log_dir_id,
            meta_epoch=meta.broker_epoch,
            marker_epoch=directory.read_clean_shutdown_marker(),
            boot_id=boot_id,
            mount=MOUNT,
            meta_mount=meta.mount,
            flushed_epoch=directory.read_flushed_mark(),
            meta_clean_since_epoch=meta.clean_since_epoch,
            failed_epoch=directory.read_failed_mark(),
        ),
        clock=Clock(),
        incarnation="pod/now",
        endpoints=(),
        software_version="",
        load=load,
        settings=RunningSettings(CONFIG, RegistrationNews()),
    )
    registered = asyncio.run(registrar.register())
    directory.remove_clean_shutdown_marker()
    directory.remove_failed_mark()
    for log in registered.loaded.found.logs.values():
        log.close()


def fill_directory(root: Path) -> None:
    """Leave what a killed broker of the present epoch leaves: a log, its state, checkpoints."""
    workshop = Workshop(root)
    log = workshop.create()
    fill(log, batches=10)
    log.close()
    written = MetaProperties(
        log_dir_id=LOG_DIR_ID, broker_epoch=EPOCH, clean_since_epoch=CLEAN_SINCE, mount=MOUNT
    )
    entry = PersistedPartition(
        topic_name="orders",
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
        isr=(),
    )
    state = BrokerState(controller_epoch=ControllerEpoch(1), partitions={TP: entry})
    with opened(root) as directory:
        directory.write_meta(written)
        directory.write_state(state)
    HighWatermarkCheckpoint(root).write({TP: 20})
    RecoveryPointCheckpoint(root).write({TP: 4})


def as_it_was(_: Path) -> None:
    """Change nothing."""


def with_marker(root: Path) -> None:
    with opened(root) as directory:
        directory.write_clean_shutdown_marker(EPOCH)


def with_flushed_mark(root: Path) -> None:
    with opened(root) as directory:
        directory.write_flushed_mark(EPOCH)


def with_failed_mark(root: Path) -> None:
    with opened(root) as directory:
        directory.read_meta()
        assert directory.mark_failed()


def attached_anew(root: Path) -> None:
    _rewrite_meta(root, broker_epoch=EPOCH, mount="ext4/sda 8")


def without_the_tail(root: Path) -> None:
    last = max((root / str(TP)).glob("*.log"))
    last.write_bytes(b"")


def without_a_segment(root: Path) -> None:
    sorted((root / str(TP)).glob("*.log"))[1].unlink()
    HighWatermarkCheckpoint(root).write({})


def without_a_log(root: Path) -> None:
    shutil.rmtree(root / str(TP))


def from_a_snapshot(root: Path) -> None:
    _rewrite_meta(root, broker_epoch=BrokerEpoch(EPOCH - 1), mount=MOUNT)


def _rewrite_meta(root: Path, *, broker_epoch: BrokerEpoch, mount: str) -> None:
    with opened(root) as directory:
        directory.write_meta(
            MetaProperties(
                log_dir_id=LOG_DIR_ID,
                broker_epoch=broker_epoch,
                clean_since_epoch=CLEAN_SINCE,
                mount=mount,
            )
        )


@pytest.mark.parametrize(
    ("prepare", "boot_id", "is_clean"),
    [
        pytest.param(as_it_was, "boot-1", True, id="killed on one boot"),
        pytest.param(with_marker, "boot-2", True, id="stopped in order, then a reboot"),
        pytest.param(as_it_was, "boot-2", False, id="power lost"),
        pytest.param(with_failed_mark, "boot-1", False, id="an fsync had failed"),
        pytest.param(without_the_tail, "boot-1", False, id="below the high watermark"),
        pytest.param(without_a_segment, "boot-1", False, id="a hole in a log"),
        pytest.param(without_a_log, "boot-1", False, id="no log"),
        pytest.param(attached_anew, "boot-1", False, id="another mount"),
        pytest.param(from_a_snapshot, "boot-1", False, id="an older disk"),
    ],
)
def test_a_start_killed_behind_any_disk_operation_takes_nothing_from_the_next(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Path], None],
    boot_id: str,
    is_clean: bool,
) -> None:
    # A process is killed, never the machine: what was written is found.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    for operation in range(1, OPERATIONS_MAX):
        root = tmp_path / str(operation)
        root.mkdir()
        fill_directory(root)
        prepare(root)
        cluster = Cluster()
        with opened(root) as directory:
            done = start_and_kill(directory, cluster, operation, boot_id, monkeypatch)
            start(directory, cluster, boot_id=boot_id)
            clean_since = cluster.stored.clean_since_epoch
            assert (clean_since == CLEAN_SINCE) == is_clean, done
            # What was found is not counted a second time.
            start(directory, cluster, boot_id=boot_id)
            assert cluster.stored.clean_since_epoch == clean_since, done
        if len(done) < operation:
            break
    assert operation > MEANT_OPERATIONS, done


@pytest.mark.parametrize("prepare", [with_marker, with_flushed_mark])
def test_a_reboot_after_a_killed_start_is_clean_if_the_reboot_before_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    for operation in range(1, OPERATIONS_MAX):
        root = tmp_path / str(operation)
        root.mkdir()
        fill_directory(root)
        prepare(root)
        cluster = Cluster()
        with opened(root) as directory:
            done = start_and_kill(directory, cluster, operation, "boot-2", monkeypatch)
            start(directory, cluster, boot_id="boot-3")
            assert cluster.stored.clean_since_epoch == CLEAN_SINCE, done
        if len(done) < operation:
            break
    assert operation > MEANT_OPERATIONS, done


def start_and_kill(
    directory: DataDirectory,
    cluster: Cluster,
    operation: int,
    boot_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """Return the disk operations that the start had done; fewer if it came to its end."""
    with killed_behind(operation, monkeypatch) as done, suppress(Killed):
        start(directory, cluster, boot_id=boot_id)
    return done
