"""The hosts of the brokers: a host keeps its disk while its processes come and go."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import BrokerId

from .environment import SimulatedEnvironment
from .process import Process
from .serving_broker import ServingBroker


@dataclass(slots=True)
class Host:
    """The host of one broker; changed by `Hosts` alone."""

    boots: int = 1
    starts: int = 0
    process: Process | None = None


class Hosts:
    """All hosts of one schedule."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment
        self._hosts = {broker_id: Host() for broker_id in environment.disks}

    def process(self, broker_id: BrokerId) -> Process | None:
        """Return the process that runs on a host, registered or not."""
        return self._hosts[broker_id].process

    def listening(self) -> dict[BrokerId, ServingBroker]:
        """Return the brokers whose listeners are open."""
        processes = [host.process for host in self._hosts.values() if host.process is not None]
        brokers = [process.broker for process in processes if process.broker is not None]
        return {broker.broker_id: broker for broker in brokers if broker.is_listening}

    def wake_all(self) -> None:
        """Let every paused process go on, start what does not run, and let all volumes grow."""
        for broker_id, host in self._hosts.items():
            self._grow_volume(broker_id)
            if host.process is not None:
                host.process.life.resume()
            self._start(broker_id)

    def crash(self, broker_id: BrokerId, away_ms: int) -> None:
        """End the process; the page cache survives. A new one starts later."""
        if self._end_process(broker_id):
            self._environment.network.end_process(broker_id)
        self._environment.virtual_time.after(away_ms, self._start, broker_id)

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
        self._power_off(broker_id, away_ms)
        return self._environment.disks[broker_id].lose_power(keep_per_mille)

    def wipe(self, broker_id: BrokerId, away_ms: int) -> None:
        """End the process and empty the disk."""
        self._power_off(broker_id, away_ms)
        log_dir_id = f"dir-{broker_id}-{self._hosts[broker_id].boots}"
        self._environment.disks[broker_id].wipe(log_dir_id)

    def fill_volume(self, broker_id: BrokerId, for_ms: int) -> None:
        """Let the volume have no room for records for a time."""
        self._environment.disks[broker_id].fill()
        self._tell_volume(broker_id)
        self._environment.virtual_time.after(for_ms, self._grow_volume, broker_id)

    def _grow_volume(self, broker_id: BrokerId) -> None:
        self._environment.disks[broker_id].grow()
        self._tell_volume(broker_id)

    def _tell_volume(self, broker_id: BrokerId) -> None:
        process = self._hosts[broker_id].process
        if process is not None and process.broker is not None:
            process.broker.note_volume()

    def _power_off(self, broker_id: BrokerId, away_ms: int) -> None:
        self._end_process(broker_id)
        self._environment.network.power_off(broker_id)
        self._hosts[broker_id].boots += 1
        self._environment.virtual_time.after(away_ms, self._start, broker_id)

    def _end_process(self, broker_id: BrokerId) -> bool:
        """Return false if no process runs."""
        process, self._hosts[broker_id].process = self._hosts[broker_id].process, None
        if process is not None:
            process.end()
        return process is not None

    def _start(self, broker_id: BrokerId) -> None:
        """Start a process unless one runs."""
        host = self._hosts[broker_id]
        if host.process is None:
            host.starts += 1
            self._environment.network.power_on(broker_id)
            boot_id = f"boot-{broker_id}.{host.boots}"
            host.process = Process(
                self._environment, broker_id, number=host.starts, boot_id=boot_id
            )
