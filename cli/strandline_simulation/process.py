"""One process of a broker: it registers, then serves, and ends with its host or by itself."""

from __future__ import annotations

from strandline.model import BrokerId, Registration

from .disk import SimulatedDisk
from .environment import SimulatedEnvironment
from .prng import Prng, key_of
from .process_life import ProcessLife
from .registration import SimulatedRegistration
from .serving_broker import ServingBroker


class Process:
    """One process; broker is None until it is registered."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        *,
        broker_id: BrokerId,
        disk: SimulatedDisk,
        number: int,
        boot_id: str,
    ) -> None:
        incarnation = f"pod-{broker_id}.{number}"
        self.life = ProcessLife(
            environment.virtual_time, broker_id=broker_id, incarnation=incarnation, number=number
        )
        self.broker: ServingBroker | None = None
        self._environment = environment
        self._disk = disk
        self._prng = Prng(key_of(environment.plan.seed, "process", broker_id, incarnation))
        SimulatedRegistration(
            environment, self.life, disk=disk, boot_id=boot_id, on_registered=self._serve
        ).begin()

    def _serve(self, registration: Registration) -> None:
        self.broker = ServingBroker(
            self._environment, self.life, registration=registration, disk=self._disk
        )
        self.broker.begin()

    def end(self) -> None:
        """End at once; what was under way to the disk may have reached it."""
        self.life.end()
        self._disk.end_of_process(lambda: self._prng.chance(500))
