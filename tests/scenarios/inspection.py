"""Commands of a scenario that look without touching."""

from __future__ import annotations

from strandline.core.events import FetchPartition
from strandline.model import LeaderEpoch, PartitionState

from .show import picture, records, value
from .world_broker import TP, ScenarioBroker

ANY_FETCH = FetchPartition(
    tp=TP,
    fetch_offset=0,
    leader_epoch=LeaderEpoch(0),
    last_fetched_epoch=LeaderEpoch(0),
    high_watermark=-1,
)


class InspectionCommands:
    """The inspecting half of `ScenarioWorld`."""

    brokers: dict[int, ScenarioBroker]
    stored: PartitionState

    def do_state(self) -> list[str]:
        printed = []
        for broker_id, broker in self.brokers.items():
            view = broker.replicas.view(TP)
            if broker.alive and view is not None:
                printed.append(picture(broker_id, view))
            else:
                printed.append(f"{broker_id}: {'no replica' if broker.alive else 'down'}")
        return printed

    def do_logs(self) -> list[str]:
        return [
            records(each, broker.disk.log[broker.disk.log_start_offset :])
            for each, broker in self.brokers.items()
        ]

    def do_stored(self) -> list[str]:
        stored = self.stored
        epochs = f"leader_epoch={stored.leader_epoch} partition_epoch={stored.partition_epoch}"
        return [f"leader={stored.leader} {epochs} isr={value(stored.isr)}"]

    def do_disk(self, at: str) -> list[str]:
        """Show what a new process would find of the partition."""
        disk = self.brokers[int(at)].disk
        persisted = f"persisted=({disk.leader_epoch}, {disk.partition_epoch}) isr={value(disk.isr)}"
        if not disk.exists:
            return [f"no log, {persisted}"]
        span = f"[{disk.log_start_offset}, {len(disk.log)})"
        return [f"log={span} segment_bytes={disk.settings.segment_bytes} {persisted}"]

    def do_offset(self, at: str, of: str) -> list[str]:
        """Ask for the earliest or latest offset, or for that of a timestamp."""
        timestamp = {"earliest": -2, "latest": -1}.get(of)
        wanted = int(of) if timestamp is None else timestamp
        error, offset, epoch = self.brokers[int(at)].replicas.list_offset(TP, wanted, None)
        return [f"{error.name} {offset} leader_epoch={epoch}"]

    def do_epoch_end(self, at: str, asked: str) -> list[str]:
        error, end = self.brokers[int(at)].replicas.end_offset_for_epoch(
            TP, LeaderEpoch(int(asked)), None
        )
        return [f"{error.name} {value(end)}"]

    def do_consume(self, at: str, offset: str, last: str = "") -> list[str]:
        read = self.brokers[int(at)].replicas.read_for_consumer(
            TP,
            fetch_offset=int(offset),
            leader_epoch=None,
            last_fetched_epoch=LeaderEpoch(int(last)) if last else None,
        )
        if read.diverging is not None:
            return [f"diverging {value(read.diverging)}"]
        log = self.brokers[int(at)].disk.log[read.from_offset : read.up_to_offset]
        names = " ".join(name for _, name in log) or "(nothing)"
        return [f"{read.error.name} hw={read.high_watermark} {names}"]
