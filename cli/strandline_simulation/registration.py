"""Registers a starting process, as the runtime does: read, decide, write meta, write, or retry.

The deciding is `start_decision`, the same as in a real broker; the retries are the shell's.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.controller.store_events import StoreOutcome
from strandline.model import (
    GRPC_LISTENER,
    INTERNAL_LISTENER,
    BrokerEpoch,
    Endpoint,
    Registration,
    StoredBroker,
)
from strandline.start_decision import FoundOnDisk, damaged, decide_registration

from .disk import SimulatedDisk
from .environment import SimulatedEnvironment
from .process_life import ProcessLife

RETRY_MS = 100


class SimulatedRegistration:
    """The registration of one process; on_registered is called once."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        life: ProcessLife,
        *,
        disk: SimulatedDisk,
        boot_id: str,
        on_registered: Callable[[Registration], None],
    ) -> None:
        self._environment = environment
        self._life = life
        self._disk = disk
        self._boot_id = boot_id
        self._on_registered = on_registered
        # A marker proves one start: what runs from now on may end without an orderly stop.
        self._marker_epoch, disk.marker_epoch = disk.marker_epoch, None

    def begin(self) -> None:
        """Read what is stored, and go on from there."""
        store, broker_id = self._environment.api.store, self._life.broker_id

        def on_read(outcome: StoreOutcome, found: tuple[StoredBroker, BrokerEpoch] | None) -> None:
            if outcome is StoreOutcome.OK and found is not None:
                self._register(*found)
            else:
                self._begin_later()

        self._environment.api.call(
            self._life,
            lambda: (store.brokers[broker_id], store.highest_entry_epoch(broker_id)),
            on_read,
        )

    def _begin_later(self) -> None:
        self._environment.virtual_time.after(RETRY_MS, self._life.deliver, self.begin)

    def _register(self, found: StoredBroker, highest_entry_epoch: BrokerEpoch) -> None:
        stored, api = found.registration, self._environment.api
        if stored is not None and stored.incarnation == self._life.incarnation:
            # An earlier write was applied, though its answer was lost.
            self._on_registered(stored)
            return
        registration = self._decide(stored, highest_entry_epoch)

        def on_written(_: StoreOutcome, written: StoredBroker | None) -> None:
            if written is None:
                self._begin_later()
            else:
                self._on_registered(registration)

        api.call(self._life, lambda: api.write_registration(found, registration), on_written)

    def _decide(
        self, stored: Registration | None, highest_entry_epoch: BrokerEpoch
    ) -> Registration:
        disk, broker_id = self._disk, self._life.broker_id
        found_on_disk = FoundOnDisk(
            log_dir_id=disk.log_dir_id,
            meta_epoch=disk.meta_epoch,
            marker_epoch=self._marker_epoch,
            boot_id=self._boot_id,
        )
        epochs = decide_registration(found_on_disk, stored, highest_entry_epoch=highest_entry_epoch)
        disk.meta_epoch = epochs.broker_epoch
        if disk.has_lost_logs():
            epochs = damaged(epochs)
        return Registration(
            broker_id=broker_id,
            broker_epoch=epochs.broker_epoch,
            clean_since_epoch=epochs.clean_since_epoch,
            incarnation=self._life.incarnation,
            endpoints=(
                Endpoint(listener=GRPC_LISTENER, host=f"b{broker_id}", port=1),
                Endpoint(listener=INTERNAL_LISTENER, host=f"b{broker_id}", port=2),
            ),
            log_dir_id=disk.log_dir_id,
            boot_id=self._boot_id,
        )
