"""Real broker processes against a real API server: how a broker gets and keeps its id."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from strandline.log.data_directory import FLUSHED_FILE
from strandline.log.partition_folder import PartitionMetadataFile, write_metadata
from strandline.model import TopicId, TopicPartition
from tests.runtime.conftest import MakeBroker
from tests.support import strandline_objects as objects
from tests.support.broker_process import BrokerProgram
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually

pytestmark = pytest.mark.processes

WITHIN_MS = 15_000
OWN_BROKER = "watch of the own Broker object"


def stored_status(control_plane: ControlPlane, namespace: str) -> dict[str, Any]:
    found = control_plane.get("broker/demo-0", "-n", namespace)
    status: dict[str, Any] = found.get("status") or {}
    return status


def epochs(status: dict[str, Any]) -> tuple[int, int]:
    return status["brokerEpoch"], status["cleanSinceEpoch"]


def restarted(broker: BrokerProgram) -> dict[str, Any]:
    broker.start()
    return broker.wait_for("registered")


def wait_renewed(control_plane: ControlPlane, namespace: str) -> None:
    """Wait until the holder has renewed the controller Lease."""

    def renew_time() -> object:
        lease = control_plane.get("lease/demo-controller", "-n", namespace)
        return lease["spec"].get("renewTime")

    before = renew_time()
    eventually(lambda: renew_time() != before, WITHIN_MS, "renewed again")


def append_without_fsync(broker: BrokerProgram) -> None:
    """Remove what a broker removes before its first append without an fsync."""
    (broker.data_dir / FLUSHED_FILE).unlink()


def test_a_broker_registers_serves_its_probes_and_takes_the_controller_lease(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    broker.start()
    line = broker.wait_for("registered")
    seconds = time.monotonic() - broker.started_at
    print(f"exec to registered: {seconds:.2f} s, in the process {line['seconds']:.2f} s")
    status = stored_status(control_plane, prepared)
    assert epochs(status) == (1, 1)
    assert status["incarnation"].startswith("00000000-0000-4000-8000-000000000001/")
    assert status["bootId"] == "boot-1"
    assert [item["name"] for item in status["listeners"]] == ["GRPC", "INTERNAL"]
    assert all(0 < item["port"] < 65_536 for item in status["listeners"])
    assert line["broker_id"] == 0
    assert line["broker_epoch"] == 1
    assert broker.get("/live")[0] == 200
    assert eventually(lambda: broker.get("/ready")[0] == 200, WITHIN_MS, "ready")
    assert "strandline_broker_epoch 1.0" in broker.get("/metrics")[1]
    lease = eventually(
        lambda: _held_lease(control_plane, prepared), WITHIN_MS, "the controller Lease is held"
    )
    assert lease
    assert lease["spec"]["holderIdentity"] == f"broker-0/{status['incarnation']}"
    assert lease["metadata"]["labels"]["strandline.dev/cluster"] == "demo"


def _held_lease(control_plane: ControlPlane, namespace: str) -> dict[str, Any] | None:
    lease = control_plane.get("lease/demo-controller", "-n", namespace)
    return lease if lease["spec"].get("holderIdentity") else None


def test_a_restart_is_clean_by_boot_id_or_by_marker_and_not_otherwise(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    assert restarted(broker)["evidence"] == "FirstStart"
    broker.kill()

    # Killed on the same boot: the page cache survived, nothing was lost.
    assert restarted(broker)["evidence"] == "SameBoot"
    assert epochs(stored_status(control_plane, prepared)) == (2, 1)
    broker.kill()

    # Another boot: the machine may have lost every byte that was not fsynced.
    append_without_fsync(broker)
    broker.boot(2)
    assert restarted(broker)["evidence"] == "NoProof"
    assert epochs(stored_status(control_plane, prepared)) == (3, 3)
    assert "strandline_unclean_starts_total 1.0" in broker.get("/metrics")[1]

    # An orderly stop fsyncs everything and writes the marker of a clean shutdown.
    assert broker.stop() == 0
    broker.boot(3)
    assert restarted(broker)["evidence"] == "CleanShutdown"
    assert epochs(stored_status(control_plane, prepared)) == (4, 3)
    broker.kill()

    # That start has removed the marker. What it did not write cannot be lost, either.
    broker.boot(4)
    assert restarted(broker)["evidence"] == "Flushed"
    assert epochs(stored_status(control_plane, prepared)) == (5, 3)
    broker.kill()
    append_without_fsync(broker)
    broker.boot(5)
    assert restarted(broker)["evidence"] == "NoProof"
    assert epochs(stored_status(control_plane, prepared)) == (6, 6)
    broker.kill()

    shutil.rmtree(broker.data_dir)
    assert restarted(broker)["evidence"] == "OtherLogDirectory"
    assert epochs(stored_status(control_plane, prepared)) == (7, 7)


def test_an_orderly_stop_releases_the_controller_lease(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    restarted(broker)
    eventually(lambda: _held_lease(control_plane, prepared), WITHIN_MS, "held")
    assert broker.stop() == 0
    assert _held_lease(control_plane, prepared) is None


def test_isr_entries_outlive_a_deleted_broker_object(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    control_plane.apply(objects.topic(prepared, "orders"))
    topic = control_plane.get("replicatedtopic/orders", "-n", prepared)
    uid = topic["metadata"]["uid"]
    control_plane.apply(objects.partition(prepared, topic_id=uid, topic_name="orders", number=0))
    status = {
        "replicas": [0, 1, 2],
        "leader": 0,
        "leaderEpoch": 3,
        "partitionEpoch": 5,
        "isr": [1, 0],
        "isrBrokerEpochs": [99, 41],
        "minInsyncReplicas": 2,
        "controllerEpoch": 1,
        "recovery": "Clean",
        "reason": "",
        "changedAt": "2026-01-01T00:00:00.000000Z",
    }
    objects.patch_status(control_plane, prepared, "partition/orders-0", status)
    broker = make_broker()
    assert restarted(broker)["evidence"] == "NoRegistration"
    assert epochs(stored_status(control_plane, prepared)) == (42, 42)


def test_a_running_broker_writes_its_registration_back(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    restarted(broker)
    before = stored_status(control_plane, prepared)
    control_plane.kubectl("delete", "broker/demo-0", "-n", prepared)
    control_plane.apply(objects.broker(prepared, 0))
    broker.wait_for("registration written back")
    assert stored_status(control_plane, prepared) == before
    assert broker.process.poll() is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"brokerEpoch": 7}, id="higher epoch"),
        pytest.param({"incarnation": "another/1"}, id="other incarnation"),
    ],
)
def test_a_running_broker_ends_when_another_registered_under_its_id(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker, change: dict[str, Any]
) -> None:
    broker = make_broker()
    restarted(broker)
    if "incarnation" in change:
        change = {"brokerEpoch": 2, **change}
    objects.patch_status(control_plane, prepared, "broker/demo-0", change)
    assert broker.exit_status() == 3
    assert broker.last_line("superseded")
    assert broker.last_line("stopped") is None
    broker.check_log()
    # Without a marker, the next start does not take this end for an orderly one.
    broker.boot(2)
    assert restarted(broker)["evidence"] in {"NoProof", "MetaBehind"}


def test_two_processes_with_one_id_leave_one(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    first, second = make_broker("first"), make_broker("second")
    restarted(first)
    assert restarted(second)["broker_epoch"] == 2
    assert first.exit_status() == 3
    assert second.process.poll() is None


def test_a_second_process_on_a_locked_directory_refuses_to_start(
    prepared: str, make_broker: MakeBroker
) -> None:
    first, second = make_broker("first"), make_broker("second")
    restarted(first)
    second.start(data_dir=first.data_dir)
    assert second.exit_status() == 2
    refusal = second.last_line("refusing to start")
    assert refusal
    assert "locked by another process" in refusal["cause"]
    assert first.process.poll() is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replica.lag.time.max": 1}, ("replica.lag.time.max:", "replica.lag.time.max.ms")),
        ({"replica.lag.time.max.ms": 1}, ("replica.lag.time.max.ms", "100 to 86400000")),
        ({"timing": "fast"}, ("timing", "demo, safe")),
    ],
)
def test_a_bad_setting_refuses_to_start_naming_key_and_range(
    make_broker: MakeBroker, settings: dict[str, object], words: tuple[str, ...]
) -> None:
    broker = make_broker(**settings)
    broker.start()
    assert broker.exit_status() == 2
    refusal = broker.last_line("refusing to start")
    assert refusal
    assert all(word in refusal["cause"] for word in words)


def test_missing_objects_are_waited_for(
    control_plane: ControlPlane, crds: None, namespace: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    broker.start()
    assert "brokers/demo-0" in broker.wait_for("waiting")["cause"]
    assert broker.get("/ready")[0] == 503
    control_plane.apply(objects.broker(namespace, 0))
    broker.wait_for("registered")


def test_a_stop_while_waiting_keeps_the_marker(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    restarted(broker)
    assert broker.stop() == 0
    control_plane.stop_api()
    try:
        broker.start()
        broker.wait_for("waiting")
        assert broker.stop() == 0
    finally:
        control_plane.start_api()
    broker.boot(2)
    assert restarted(broker)["evidence"] == "CleanShutdown"


def put_log_that_cannot_be_read(broker: BrokerProgram) -> Path:
    """Give a stopped broker a log whose read fails; return what has to go to end that."""
    folder = broker.data_dir / "6f1ed002-ab59-4d60-8a05-7f1c0e9a1b2c-0"
    folder.mkdir()
    metadata = PartitionMetadataFile(
        tp=TopicPartition(topic_id=TopicId(folder.name[:-2]), partition=0), topic_name="orders"
    )
    write_metadata(folder, metadata)
    segment = folder / ("0" * 20 + ".log")
    segment.mkdir()
    return segment


def test_a_start_that_cannot_read_a_log_is_remembered_by_the_next_one(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    restarted(broker)
    broker.kill()
    segment = put_log_that_cannot_be_read(broker)
    broker.start()
    assert broker.exit_status() == 2
    refusal = broker.last_line("refusing to start")
    assert refusal
    assert "EISDIR" in refusal["cause"]
    segment.rmdir()
    assert restarted(broker)["evidence"] == "StorageFailed"
    assert epochs(stored_status(control_plane, prepared)) == (3, 3)
    broker.kill()
    assert restarted(broker)["evidence"] == "SameBoot"


def test_a_broker_says_that_it_reads_logs_which_nothing_proves(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    before = restarted(broker)
    registered = stored_status(control_plane, prepared)
    broker.kill()
    append_without_fsync(broker)
    broker.boot(2)
    segment = put_log_that_cannot_be_read(broker)
    broker.start()
    assert broker.exit_status() == 2
    reading = stored_status(control_plane, prepared)
    told = reading.pop("readingLogs")
    assert told.startswith("00000000-0000-4000-8000-000000000001/")
    assert told != registered["incarnation"]
    assert reading == registered, "the last registration stays as it was"
    segment.rmdir()
    assert restarted(broker)["broker_epoch"] > before["broker_epoch"]
    assert "readingLogs" not in stored_status(control_plane, prepared)


def test_no_permission_refuses_to_start(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    control_plane.kubectl("create", "serviceaccount", "powerless", "-n", prepared)
    broker = make_broker(**{"kubernetes.forbidden.grace.ms": 300})
    kubeconfig = control_plane.service_account_kubeconfig(prepared, "powerless")
    broker.use_kubeconfig(kubeconfig)
    broker.start()
    assert broker.exit_status() == 2
    refusal = broker.last_line("refusing to start")
    assert refusal
    assert "forbidden" in refusal["cause"]
    assert "brokers" in refusal["cause"]


def test_without_an_api_server_a_broker_waits_says_so_and_then_registers(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker(**{"waiting.report.interval.ms": 200})
    control_plane.stop_api()
    try:
        broker.start()
        first = broker.wait_for("waiting")
        assert first["waiting_for"] == "registration"
        eventually(
            lambda: len([item for item in broker.lines() if item["message"] == "waiting"]) > 1,
            WITHIN_MS,
            "it says so again",
        )
    finally:
        control_plane.start_api()
    broker.wait_for("registered")
    assert epochs(stored_status(control_plane, prepared)) == (1, 1)


def test_a_registered_broker_outlives_a_stopped_api_server(
    control_plane: ControlPlane, prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    restarted(broker)
    # A broker that holds the Lease renews it; its watches notice the outage at once.
    broker.wait_for("lease taken")
    expected = {"controller Lease", "watch of brokers with metadata.name=demo-0"}

    def has_said_all() -> bool:
        return expected <= {line.get("waiting_for") for line in broker.lines()}

    control_plane.kill_api()
    try:
        eventually(has_said_all, WITHIN_MS, "it says what it waits for")
    finally:
        control_plane.start_api()
    wait_renewed(control_plane, prepared)
    wait_renewed(control_plane, prepared)
    assert broker.process.poll() is None
    # The new API server cannot watch from the version of the object, which is older than itself.
    watches = [line for line in broker.lines() if line.get("waiting_for") == OWN_BROKER]
    assert len(watches) <= 2, watches
    # The watch goes on as well: a later registration still ends this process.
    objects.patch_status(control_plane, prepared, "broker/demo-0", {"brokerEpoch": 9})
    assert broker.exit_status() == 3
