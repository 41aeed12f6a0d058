"""Apache Kafka as requirements/kafka.sha256 pins it: three brokers that are controllers, too.

Settings are Kafka's defaults. Java gets what Kafka's own start script gives it: a heap of 1 GiB and
G1 with pauses of 20 ms. Without a logging library of its own, Kafka writes no log.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from confluent_kafka.cimpl import NewTopic

from tests.support.ports import free_port

from .cluster import BROKERS, METADATA_SECONDS, Cluster

ROOT: Final = Path(__file__).resolve().parents[2]
FETCH_LIMIT_SECONDS: Final = 900
"""Bound of the first use, which downloads Kafka and PySpark, whose Ivy does that."""
CLUSTER_ID: Final = "c3RyYW5kbGluZS1iZW5jaA"
MIN_ISR: Final = {"min.insync.replicas": "2"}
JAVA: Final = (
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
)
STOP_SECONDS: Final = 30

_DESCRIBE_QUORUM: Final = 55
_METADATA_TOPIC: Final = b"__cluster_metadata"


@cache
def jars() -> Path:
    """Return the folder of Kafka's jars; the first use downloads them.

    Raises:  subprocess.CalledProcessError; the script has said what is missing
    """
    command = [str(ROOT / "hack" / "maven-jars"), "kafka", "kafka_2.13", sys.executable]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=FETCH_LIMIT_SECONDS
    )
    return Path(done.stdout.splitlines()[-2])


class KafkaCluster(Cluster):
    """Kafka without ZooKeeper; each process is broker and voter of the controllers' quorum."""

    name = "Kafka"

    def __init__(self, folder: Path) -> None:
        """Format the disks of three brokers below this folder; nothing runs yet."""
        self._classes = f"{jars()}/*"
        self._folder = folder
        self._ports = [free_port() for _ in range(BROKERS)]
        self._voting_ports = [free_port() for _ in range(BROKERS)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(self._voting_ports))
        for number in range(BROKERS):
            broker, voter = self._ports[number], self._voting_ports[number]
            self._properties(number).parent.mkdir(parents=True)
            self._properties(number).write_text(
                "process.roles=broker,controller\n"
                f"node.id={number}\n"
                f"controller.quorum.voters={voters}\n"
                f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{voter}\n"
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n"
                "controller.listener.names=CONTROLLER\n"
                f"log.dirs={folder / f'kafka-{number}' / 'logs'}\n"
                "auto.create.topics.enable=false\n"
            )
            self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", number=number)

    def _properties(self, number: int) -> Path:
        return self._folder / f"kafka-{number}" / "server.properties"

    def _java(self, program: str, *words: str, number: int) -> None:
        command = ["java", "-cp", self._classes, program, *words, str(self._properties(number))]
        subprocess.run(command, check=True, capture_output=True, timeout=FETCH_LIMIT_SECONDS)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers; a restart keeps them."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def pids(self) -> list[int]:
        """Return the processes of the brokers that run."""
        return [each.pid for each in self._processes.values() if each.poll() is None]

    def pids_beside(self) -> list[int]:
        """Return none: the brokers are the controllers."""
        return []

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic of three replicas and min ISR 2 and wait until every ISR is full."""
        topic = NewTopic(name, partitions, BROKERS, config=MIN_ISR)
        admin = self.admin()  # Without it, what is asked of it ends, too.
        admin.create_topics([topic], operation_timeout=60)[name].result()
        self.wait_full(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its logs."""
        admin = self.admin()
        admin.delete_topics([name], operation_timeout=60)[name].result()

    def controller(self) -> int:
        """Return the leader of the controllers' quorum, by DescribeQuorum (KIP-595)."""
        running = next(n for n, each in self._processes.items() if each.poll() is None)
        return _quorum_leader(self._ports[running])

    def kill(self, broker: int) -> None:
        """End a broker with SIGKILL."""
        self._processes[broker].kill()
        self._processes[broker].wait()

    def start(self) -> None:
        """Start every broker that does not run."""
        for number in range(BROKERS):
            found = self._processes.get(number)
            if found is None or found.poll() is not None:
                command = ["java", *JAVA, "-cp", self._classes, "kafka.Kafka"]
                with (self._folder / f"kafka-{number}" / "output").open("ab") as output:
                    self._processes[number] = subprocess.Popen(
                        [*command, str(self._properties(number))],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )

    def stop(self) -> None:
        """End the brokers, by force where they do not end in time."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _quorum_leader(port: int) -> int:
    """Ask a broker for the leader of the metadata partition; librdkafka has no such request."""
    topic = struct.pack(">BB", 2, len(_METADATA_TOPIC) + 1) + _METADATA_TOPIC
    body = topic + struct.pack(">BiBBB", 2, 0, 0, 0, 0)
    header = struct.pack(">hhih5sB", _DESCRIBE_QUORUM, 0, 1, 5, b"bench", 0)
    request = header + body
    with socket.create_connection(("127.0.0.1", port), METADATA_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as responses:
            (size,) = struct.unpack(">i", responses.read(4))
            response = responses.read(size)
    # Correlation id, tags, error, one topic with its name, one partition, its number and error.
    at = response.index(_METADATA_TOPIC) + len(_METADATA_TOPIC) + 1
    _, error, leader = struct.unpack(">ihi", response[at : at + 10])
    if error:
        raise ConnectionError(f"DescribeQuorum: error {error}")
    return int(leader)
