"""Logs come back from the trash one after another, and each request gets its response."""

from __future__ import annotations

import asyncio
from pathlib import Path

from strandline.controller_session.effects import RestoreReplicas
from strandline.controller_session.messages import ReplyRestoreReplica
from strandline.core.events import ReplicaLoaded
from strandline.errors import ErrorCode, StorageError
from strandline.model import TopicPartition
from strandline.runtime.storage.trash_restorer import TrashRestorer

from .opened import OTHER, TP, Opened, with_store
from .test_replica_store import deleted


def test_each_log_is_loaded_before_the_response_says_so(tmp_path: Path) -> None:
    happened: list[ReplicaLoaded | ReplyRestoreReplica] = []
    failures: list[StorageError] = []

    async def restored(one: Opened) -> None:
        await deleted(one, TP)
        restorer = TrashRestorer(
            one.store,
            step_replicas=happened.append,
            on_done=happened.append,
            on_failure=failures.append,
        )
        running = asyncio.create_task(restorer.run())
        restorer.ask(RestoreReplicas(request_id=1, partitions=(TP,)))
        restorer.ask(RestoreReplicas(request_id=2, partitions=(TP, OTHER)))
        await one.until(lambda: len(happened) == 3, "responses")
        running.cancel()

    with_store(tmp_path, restored)
    loaded, first, second = happened
    assert isinstance(loaded, ReplicaLoaded)
    assert (loaded.hosted.tp, loaded.hosted.log_end_offset) == (TP, 1)
    assert [first, second] == [
        reply(TP, ErrorCode.NONE),
        reply(OTHER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert failures == []


def reply(tp: TopicPartition, error: ErrorCode) -> ReplyRestoreReplica:
    return ReplyRestoreReplica(request_id=2, error=ErrorCode.NONE, partitions=((tp, error),))


def test_a_disk_that_fails_fails_the_directory(tmp_path: Path) -> None:
    failures: list[StorageError] = []

    async def failed(one: Opened) -> None:
        await deleted(one, TP)
        (folder,) = (tmp_path / "trash").iterdir()
        segment = next(folder.glob("*.log"))
        segment.unlink()
        segment.mkdir()
        restorer = TrashRestorer(
            one.store,
            step_replicas=lambda _: None,
            on_done=lambda _: None,
            on_failure=failures.append,
        )
        restorer.ask(RestoreReplicas(request_id=1, partitions=(TP,)))
        await restorer.run()

    with_store(tmp_path, failed)
    assert len(failures) == 1
