"""Lets the next start know that this process saw its data directory fail.

After such an end the same boot proves nothing: the kernel may have dropped pages that it could not
write, and a second fsync would succeed without them (ADR 0002). `lifecycle` calls `record_failure`
before the process ends.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from strandline.config.broker import BrokerConfig
from strandline.errors import CoordinationError
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log.data_directory import DataDirectory


async def record_failure(
    directory: DataDirectory, store: ClusterStore, config: BrokerConfig
) -> None:
    """Mark the directory, or take the boot id from the registration; try until one succeeds.

    A disk that just failed may refuse the mark as well. A registration without a boot id leaves the
    next start no proof. Nothing else is left to do, so only SIGKILL ends the tries early.
    """
    pauses, report = Pauses(config.kubernetes), WaitingReport(config.kubernetes)
    while not await asyncio.to_thread(directory.mark_failed):
        try:
            await _withdraw_boot_id(store, config.identity.pod_name)
            return
        except CoordinationError as error:
            report.waiting_for("record of the storage failure", error)
        await pauses.pause()


async def _withdraw_boot_id(store: ClusterStore, name: str) -> None:
    found = await store.get_broker(name)
    if found is not None and found.registration is not None and found.registration.boot_id:
        await store.put_broker_status(found, replace(found.registration, boot_id=""))
