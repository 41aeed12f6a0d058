"""The hosts of the brokers: a host keeps its disk while its processes come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strandline.model import BrokerId

from .disk import SimulatedDisk
from .environment import SimulatedEnvironment
from .process import Process
from .serving_broker import ServingBroker


@dataclass(slots=True)
class Host:
    """The host of one broker; changed by `Hosts` alone."""

    disk: SimulatedDisk
    boots: int = 1
    starts: int = 0
    process: Process | None = None


class Hosts:
    """All hosts of one schedule."""

    def __init__(
        self, environment: SimulatedEnvironment, disks: Mapping[BrokerId, SimulatedDisk]
    ) -> None:
        self._environment = environment
        self._hosts = {broker_id: Host(disk) for broker_id, disk in disks.items()}

    def process(self, broker_id: BrokerId) -> Process | None:
        """Return the process that runs on a host, registered or not."""
        return self._hosts[broker_id].process

    def listening(self) -> dict[BrokerId, ServingBroker]:
        """Return the brokers whose listeners are open."""
        found = {}
        for broker_id, host in self._hosts.items():
            broker = None if host.process is None else host.process.broker
            if broker is not None and broker.is_listening:
                found[broker_id] = broker
        return found

    def start(self, broker_id: BrokerId) -> None:
        """Start a process unless one runs."""
        host = self._hosts[broker_id]
        if host.process is None:
            host.starts += 1
            self._environment.network.power_on(broker_id)
            host.process = Process(
                self._environment,
                broker_id=broker_id,
                disk=host.disk,
                number=host.starts,
                boot_id=f"boot-{broker_id}.{host.boots}",
            )

    def crash(self, broker_id: BrokerId, away_ms: int) -> None:
        """End the process; the page cache survives. A new one starts later."""
        host = self._hosts[broker_id]
        if host.process is not None:
            host.process.end()
            host.process = None
            self._environment.network.end_process(broker_id)
        self._start_after(broker_id, away_ms)

    def stop(self, broker_id: BrokerId, away_ms: int) -> None:
        """Stop the process in order; the host boots before a new one starts."""

        def on_exit() -> None:
            self._hosts[broker_id].boots += 1
            self.crash(broker_id, away_ms)

        process = self._hosts[broker_id].process
        if process is not None and process.broker is not None:
            process.broker.stop(on_exit)

    def lose_power(self, broker_id: BrokerId, away_ms: int, keep_per_mille: int) -> int:
        """End process and page cache; return how many records are lost."""
        disk = self._power_off(broker_id, away_ms)
        return disk.lose_power(keep_per_mille)

    def wipe(self, broker_id: BrokerId, away_ms: int) -> None:
        """End the process and empty the disk."""
        disk = self._power_off(broker_id, away_ms)
        disk.wipe(f"dir-{broker_id}-{self._hosts[broker_id].boots}")

    def _power_off(self, broker_id: BrokerId, away_ms: int) -> SimulatedDisk:
        host = self._hosts[broker_id]
        if host.process is not None:
            host.process.end()
            host.process = None
        self._environment.network.power_off(broker_id)
        host.boots += 1
        self._start_after(broker_id, away_ms)
        return host.disk

    def _start_after(self, broker_id: BrokerId, away_ms: int) -> None:
        self._environment.virtual_time.after(away_ms, self.start, broker_id)

    def wake_all(self) -> None:
        """Let every paused process go on, and start what does not run."""
        for broker_id, host in self._hosts.items():
            if host.process is not None:
                host.process.life.resume()
            self.start(broker_id)
