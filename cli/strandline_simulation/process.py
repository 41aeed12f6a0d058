"""One process of a broker: it registers, then serves, and ends with its host or by itself.

It registers as the runtime does: read, decide, write meta, write, or retry. The deciding is
`start_decision`, the same as in a real broker. A start that dies before it is registered takes
nothing from the next one.
"""

from __future__ import annotations

from strandline.controller.store_events import StoreOutcome
from strandline.model import (
    GRPC_LISTENER,
    INTERNAL_LISTENER,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    Registration,
    StoredBroker,
)
from strandline.start_decision import FoundOnDisk, damaged, decide_registration

from .environment import SimulatedEnvironment
from .prng import Prng, key_of
from .process_life import ProcessLife
from .serving_broker import ServingBroker

RETRY_MS = 100
MOUNT = "mounted once"


class Process:
    """One process; broker is None until it is registered."""

    def __init__(
        self, environment: SimulatedEnvironment, broker_id: BrokerId, *, number: int, boot_id: str
    ) -> None:
        self.life = ProcessLife(environment.virtual_time, broker_id=broker_id, number=number)
        self.broker: ServingBroker | None = None
        self._environment = environment
        self._disk = environment.disks[broker_id]
        self._boot_id = boot_id
        self._found = self._found_on_disk()
        self._has_lost_logs = self._disk.has_lost_logs()
        key = key_of(environment.plan.seed, "process", broker_id, self.life.incarnation)
        self._prng = Prng(key)
        self._read_stored()

    def end(self) -> None:
        """End at once; what was under way to the disk may have reached it."""
        self.life.end()
        self._disk.end_of_process(lambda: self._prng.chance(500))

    def _read_stored(self) -> None:
        store, broker_id = self._environment.api.store, self.life.broker_id

        def on_read(outcome: StoreOutcome, found: tuple[StoredBroker, BrokerEpoch] | None) -> None:
            if outcome is StoreOutcome.OK and found is not None:
                self._register(*found)
            else:
                self.life.deliver_after(RETRY_MS, self._read_stored)

        self._environment.api.call(
            self.life,
            lambda: (store.brokers[broker_id], store.highest_entry_epoch(broker_id)),
            on_read,
        )

    def _register(self, found: StoredBroker, highest_entry_epoch: BrokerEpoch) -> None:
        stored, api = found.registration, self._environment.api
        if stored is not None and stored.incarnation == self.life.incarnation:
            # An earlier write was applied, though its answer was lost.
            self._serve(stored)
            return
        registration = self._decide(stored, highest_entry_epoch)

        def on_written(_: StoreOutcome, written: StoredBroker | None) -> None:
            if written is None:
                self.life.deliver_after(RETRY_MS, self._read_stored)
            else:
                self._serve(registration)

        api.call(self.life, lambda: api.write_registration(found, registration), on_written)

    def _found_on_disk(self) -> FoundOnDisk:
        """Return what was there before this process wrote: a retry decides from the same."""
        disk = self._disk
        return FoundOnDisk(
            log_dir_id=disk.log_dir_id,
            meta_epoch=disk.meta_epoch,
            marker_epoch=disk.marker_epoch,
            boot_id=self._boot_id,
            mount=MOUNT,
            meta_mount=MOUNT,
            flushed_epoch=disk.flushed_epoch,
            meta_clean_since_epoch=disk.meta_clean_since_epoch,
        )

    def _decide(
        self, stored: Registration | None, highest_entry_epoch: BrokerEpoch
    ) -> Registration:
        disk, broker_id = self._disk, self.life.broker_id
        epochs = decide_registration(self._found, stored, highest_entry_epoch=highest_entry_epoch)
        if self._has_lost_logs:
            epochs = damaged(epochs)
        disk.write_meta(epochs)
        disk.clamp_checkpoint()
        disk.mark_flushed(epochs.broker_epoch)
        return Registration(
            broker_id=broker_id,
            broker_epoch=epochs.broker_epoch,
            clean_since_epoch=epochs.clean_since_epoch,
            incarnation=self.life.incarnation,
            endpoints=(
                Endpoint(listener=GRPC_LISTENER, host=f"b{broker_id}", port=1),
                Endpoint(listener=INTERNAL_LISTENER, host=f"b{broker_id}", port=2),
            ),
            log_dir_id=disk.log_dir_id,
            boot_id=self._boot_id,
        )

    def _serve(self, registration: Registration) -> None:
        self._disk.begin_run()
        self.broker = ServingBroker(self._environment, self.life, registration)
        self.broker.begin()
