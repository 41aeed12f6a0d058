"""A group of brokers without load, the target of bad input, and what bad input must not change."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping
from typing import Any

from strandline import names
from strandline.errors import ErrorCode
from tests.kafka.wire_client import WireClient
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.broker_process import BrokerProgram
from tests.support.clients import SentRecords, producer_of
from tests.support.eventually import eventually
from tests.support.load import scan_log

TOPIC = "bad-input"
RECORDS = 5
MALFORMED = "malformed request, connection closed"
LINE_LIMIT_MS = 30_000
KEPT_METRICS = tuple(
    metric.name
    for metric in (
        names.PARTITION_LOG_START_OFFSET,
        names.PARTITION_LOG_END_OFFSET,
        names.PARTITION_HIGH_WATERMARK,
        names.PARTITION_LEADER_EPOCH,
        names.PARTITION_PARTITION_EPOCH,
        names.PARTITION_IS_LEADER,
        names.PARTITION_LOG_SIZE_BYTES,
        names.PARTITION_ISR_SIZE,
        names.ISR_SHRINKS_TOTAL,
        names.TRUNCATIONS_TOTAL,
        names.PRODUCED_RECORDS_TOTAL,
        names.BROKER_EPOCH,
        names.BROKER_PARTITIONS,
        names.CONTROLLER_EPOCH,
        names.LOG_DIRECTORY_FAILED,
        names.INVARIANT_VIOLATIONS_TOTAL,
    )
)
Line = dict[str, Any]


class Victim:
    """The leader of a partition among its followers."""

    def __init__(self, group: BrokerGroup) -> None:
        self.group = group
        self.topic_id = group.create_topic(TOPIC)
        group.wait_full_isr(TOPIC)
        sent = SentRecords(producer_of(group.bootstrap()), TOPIC)
        sent.send(RECORDS)
        sent.settle()
        # A second election, so that a request can name a lower leader epoch that once existed.
        first = group.wait_leader(TOPIC)
        group.brokers[first].kill()
        group.wait_leader(TOPIC, other_than=first)
        group.start()
        group.wait_full_isr(TOPIC)
        self.leader = group.wait_leader(TOPIC)
        self.broker: BrokerProgram = group.brokers[self.leader]
        eventually(self._has_equal_logs, FAULT_LIMIT_MS, "equal logs and high watermarks")
        self._before = self.state()
        self.leader_epoch = int(self._before["status"]["leaderEpoch"])
        self._lines_read = [len(broker.lines()) for broker in group.brokers]

    def _has_equal_logs(self) -> bool:
        for broker in range(3):
            assert len(self._records(broker)) == RECORDS
            for metric in (names.PARTITION_LOG_END_OFFSET, names.PARTITION_HIGH_WATERMARK):
                wanted = f'{metric.name}{{topic="{TOPIC}",partition="0"}} {RECORDS}'
                assert wanted in self._metrics(broker), self._metrics(broker)
        return True

    # --- what must not change --------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the partition's status, each replica's records, metrics, and every file."""
        return {
            "status": self.group.partition(TOPIC),
            "records": [self._records(broker) for broker in range(3)],
            "metrics": [self._metrics(broker) for broker in range(3)],
            "files": [self._files(broker) for broker in range(3)],
        }

    def assert_unchanged(self) -> None:
        """Fail unless every broker runs and `state` is what it was when this object was made."""
        assert all(broker.runs() for broker in self.group.brokers)
        assert self.state() == self._before

    def _records(self, broker: int) -> list[Any]:
        return scan_log(self.group.log_folder(broker, self.topic_id), broker, 0)

    def _metrics(self, broker: int) -> list[str]:
        _, text = self.group.brokers[broker].get("/metrics")
        return [line for line in text.splitlines() if line.startswith(KEPT_METRICS)]

    def _files(self, broker: int) -> dict[str, str]:
        """Return hashes of a broker's files, except its log output and what it writes by time.

        By time it writes offset checkpoints, and the index and the summary of the last segment.
        """
        folder = self.group.brokers[broker].folder
        return {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
            and path.suffix not in {".jsonl", ".index", ".summary"}
            and "-offset-checkpoint" not in path.name
        }

    # --- what the brokers log --------------------------------------------------------------

    def drain(self, of: int | None = None) -> list[Line]:
        """Return the lines of a broker, by default the leader, that no call has returned yet."""
        broker = self.leader if of is None else of
        lines = self.group.brokers[broker].lines()[self._lines_read[broker] :]
        self._lines_read[broker] += len(lines)
        return lines

    def next_line(self, of: int | None = None) -> Line:
        """Wait for the next line of a broker, by default the leader, and return it."""
        broker = self.leader if of is None else of
        already = self._lines_read[broker]
        program = self.group.brokers[broker]
        eventually(lambda: len(program.lines()) > already, LINE_LIMIT_MS, "a log line")
        self._lines_read[broker] += 1
        return program.lines()[already]

    def assert_refusal_was_logged(
        self, client: WireClient, error: ErrorCode, fields: Mapping[str, object]
    ) -> None:
        """Fail unless the next line is about this client's request."""
        line = self.next_line()
        assert line["message"] == "request refused"
        assert line["error"] == error.name
        assert line["listener"] == "INTERNAL"
        host, port = client.socket.getsockname()
        assert line["peer"] == f"{host}:{port}"
        assert {name: line[name] for name in fields} == fields

    # --- ports -----------------------------------------------------------------------------

    def port_of(self, listener: str) -> int:
        """Return a port of the leader: a listener's, or HTTP."""
        if listener == "HTTP":
            return int(self.broker.wait_for("http listening")["port"])
        return int(self.broker.wait_for("registered")["listeners"][listener])

    def send_and_wait_for_the_end(self, listener: str, data: bytes) -> int:
        """Send bytes and wait until the broker closes; return the port they came from."""
        address = ("127.0.0.1", self.port_of(listener))
        with socket.create_connection(address, 10) as client:
            own = int(client.getsockname()[1])
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65_536):
                    continue
            except TimeoutError:
                raise
            except OSError:
                pass  # the broker closed before everything was sent
        return own
