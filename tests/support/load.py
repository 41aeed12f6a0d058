"""The project's load generator as a process of its own, and the verdict on its history.

A test injects faults while the load runs. Afterwards the checker judges the load's history
against every replica's log on disk, which kafka-python decodes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka.record.memory_records import MemoryRecords

from strandline.dump_log.scanned import Scanned
from strandline.errors import CorruptBatch
from strandline.log.record_batch import parse_header
from strandline.model import BrokerId, LeaderEpoch
from strandline_checker.history import History, SendOutcome, read_history
from strandline_checker.judge import HistoryVerdict, judge
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.eventually import eventually

RUN_LIMIT_SECONDS = 150
RATE = 100
"""Records that the load sends to each partition each second; it reports once a second."""


class LoadProcess:
    """One run of `strandline load` against a topic."""

    def __init__(
        self,
        group: BrokerGroup,
        topic: str,
        partitions: int = 1,
        *,
        rate: int = RATE,
        seconds: int = RUN_LIMIT_SECONDS,
    ) -> None:
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._history = group.folder / f"history-{uuid.uuid4().hex[:8]}.jsonl"
        self._reports = self._history.with_suffix(".reports")
        with self._reports.open("wb") as reports:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "strandline_cli", "load"),
                    f"--bootstrap={group.bootstrap()}",
                    f"--topic={topic}",
                    f"--partitions={partitions}",
                    f"--rate={rate}",
                    f"--seconds={seconds}",
                    f"--history={self._history}",
                    "--consume",
                ],
                stdout=reports,
            )
        group.on_stop(self._kill)
        self.wait_for_acks(rate // 2)

    def reports(self) -> list[dict[str, Any]]:
        """Return the reports of the load, one for each second."""
        lines = self._reports.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def acked(self) -> list[int]:
        """Return how many records of each partition were acknowledged by the last report."""
        reports = self.reports()
        last = reports[-1]["acked"] if reports else {}
        return [last.get(str(number), 0) for number in range(self._partitions)]

    def wait_for_acks(
        self, more: int, *, of: Sequence[int] | None = None, within_ms: int = FAULT_LIMIT_MS
    ) -> None:
        """Wait until all or the given partitions have this many more acknowledgements than now.

        Leave out partitions of a frozen leader: the client's library waits for that leader's
        response as long as the connection is open.
        """
        before = self.acked()

        def acked() -> bool:
            now = self.acked()
            for number in range(self._partitions) if of is None else of:
                assert now[number] >= before[number] + more, (before, now)
            assert self._process.poll() is None, "the load ended by itself"
            return True

        eventually(acked, within_ms, f"{more} acknowledgements of {self._topic}")

    def wait_reports(self, count: int) -> None:
        """Wait until the load has made this many reports."""

        def reported() -> bool:
            assert len(self.reports()) >= count, len(self.reports())
            return True

        eventually(reported, count * 1000 + FAULT_LIMIT_MS, f"{count} reports")

    def stop(self) -> History:
        """Let the load finish its outstanding sends and its reading; return its history."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(RUN_LIMIT_SECONDS) == 0
        return read_history(self._history.read_text().splitlines(keepends=True))

    def judged(self, *, silent: Sequence[int] = ()) -> HistoryVerdict:
        """End the load and judge it once every replica holds the whole log.

        Every record must be acknowledged and read by a consumer. No partition may wait longer
        than a fault may last, except the `silent` ones, whose leader a test froze: the client's
        library waits for that leader's response.
        """
        verdict = self.verdict()
        assert verdict.is_valid, verdict
        assert verdict.read >= verdict.acked >= RATE * self._partitions, verdict
        late = {n: gap for n, gap in verdict.gaps_ms.items() if gap > FAULT_LIMIT_MS}
        assert late.keys() <= set(silent), late
        return verdict

    def verdict(self) -> HistoryVerdict:
        """End the load and return the verdict; fail if a send was not acknowledged."""
        verdict = settled_verdict(self._group, self._topic, self._partitions, self.stop())
        assert verdict.failed == 0, verdict
        assert verdict.unknown == 0, verdict
        return verdict

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def judge_settled(group: BrokerGroup, topic: str, partitions: int, history: History) -> None:
    """Judge a history as `settled_verdict` does, and fail if the verdict has a finding."""
    verdict = settled_verdict(group, topic, partitions, history)
    assert verdict.is_valid, verdict


def settled_verdict(
    group: BrokerGroup, topic: str, partitions: int, history: History, within_ms: int = 30_000
) -> HistoryVerdict:
    """Wait until all ISRs are full and replicas have equally long logs; then judge a history."""
    group.wait_full_isr(topic, partitions)
    topic_id = group.topic_id(topic)
    statuses = group.partitions(topic, partitions)

    def scanned() -> bool:
        for number, status in enumerate(statuses):
            scans = {
                broker: scan_log(group.log_folder(broker, topic_id, number), broker, number)
                for broker in status["replicas"]
            }
            ends = {broker: len(records) for broker, records in scans.items()}
            assert len(set(ends.values())) == 1, ends
            history.scans.update({(number, BrokerId(b)): r for b, r in scans.items()})
        return True

    retry_on = (AssertionError, CorruptBatch)  # a batch may be read while it is written
    eventually(scanned, within_ms, f"equal logs of {topic}", retry_on=retry_on)
    return judge(history, replicas={n: frozenset(s["replicas"]) for n, s in enumerate(statuses)})


def acked_history(*acknowledged: Mapping[bytes, int | None], partition: int = 0) -> History:
    """Return a history from each producer's values and offsets; None is an unknown outcome."""
    lines: list[str] = []
    for producer, offsets in enumerate(acknowledged):
        for sequence, (value, offset) in enumerate(offsets.items()):
            text = value.decode()
            lines.append(json.dumps(["sent", f"p{producer}", partition, sequence, text, 0]))
            if offset is not None:
                lines.append(json.dumps([SendOutcome.ACKED.value, text, 0, offset]))
    return read_history(line + "\n" for line in lines)


def scan_log(folder: Path, broker: int, partition: int) -> list[Scanned]:
    """Return every record of a replica's log, read from its segment files."""
    found: list[Scanned] = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        while data:
            header = parse_header(data)
            batch, data = data[: header.size_bytes], data[header.size_bytes :]
            if len(batch) < header.size_bytes:
                raise CorruptBatch(problem="batch is cut", size=header.size_bytes)
            found.extend(
                Scanned(
                    broker=BrokerId(broker),
                    partition=partition,
                    offset=record.offset,
                    leader_epoch=LeaderEpoch(header.leader_epoch),
                    value=record.value.decode(errors="backslashreplace"),
                    checksum=header.crc,
                )
                for record in MemoryRecords(batch).next_batch()
            )
    return found
