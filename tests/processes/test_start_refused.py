"""A start that cannot succeed ends with status 2 and a remedy; one that still may succeed waits.

A waiting broker logs what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from strandline.config.broker import KEYS_SINCE, KEYS_VERSION
from strandline.config.kubernetes import KubernetesConfig
from tests.support import strandline_objects as objects
from tests.support.broker_process import BrokerProgram
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.volumes import mounted_tmpfs

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

REFUSED = 2
REPORT_INTERVAL_SECONDS = KubernetesConfig().waiting_report_interval_ms / 1000
TWO_REPORTS_LIMIT_MS = 60_000
BETWEEN_ATTEMPTS_SECONDS = 5.0
"""A broker logs a report at its first attempt after the report is due."""

Mount = Callable[[str], Path]


def broker_program(
    folder: Path, *, kubeconfig: Path, namespace: str = "nowhere", broker_id: int = 0
) -> BrokerProgram:
    return BrokerProgram(
        folder,
        kubeconfig=kubeconfig,
        namespace=namespace,
        cluster=objects.CLUSTER,
        broker_id=broker_id,
    )


@pytest.fixture
def without_api(tmp_path: Path) -> Iterator[BrokerProgram]:
    """Provide a broker without an API server: it must check its data directory first."""
    program = broker_program(tmp_path / "broker", kubeconfig=unreachable(tmp_path))
    yield program
    program.clean_up()


def unreachable(folder: Path) -> Path:
    """Return a kubeconfig of an API server that does not exist."""
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: none\n"
        "clusters: [{name: none, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: none, user: {token: none}}]\n"
        "contexts: [{name: none, context: {cluster: none, user: none}}]\n"
    )
    return path


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Mount]:
    """Provide a maker of small volumes."""
    with ExitStack() as mounts:
        yield lambda options: mounts.enter_context(mounted_tmpfs(tmp_path / "volume", options))


def refusal_of(program: BrokerProgram, data_dir: Path) -> str:
    """Start a broker, wait for its end and return why it refused; fail if it logged more."""
    program.start(data_dir=data_dir)
    assert program.exit_status() == REFUSED
    (line,) = program.lines()
    assert (line["level"], line["message"]) == ("ERROR", "refusing to start")
    return str(line["cause"])


def test_a_read_only_directory_is_refused_with_its_remedy(
    volume: Mount, without_api: BrokerProgram
) -> None:
    path = volume("ro,size=1m")
    cause = refusal_of(without_api, path)
    assert cause.startswith(f"data directory {path} is read-only: mount the volume writable")


def test_an_unknown_setting_is_refused_unless_the_file_marks_it_as_a_later_versions(
    tmp_path: Path, without_api: BrokerProgram
) -> None:
    later = {"quick.start": True, KEYS_SINCE.key: {"quick.start": KEYS_VERSION + 1}}
    without_api.configure({**later, "quik.start": True})
    assert refusal_of(without_api, tmp_path / "data").startswith("quik.start: unknown setting;")
    without_api.configure({"quick.start": True, KEYS_SINCE.key: {"quick.start": KEYS_VERSION}})
    assert refusal_of(without_api, tmp_path / "data") == "quick.start: unknown setting"
    without_api.configure(later)
    without_api.start(data_dir=tmp_path / "data")
    line = without_api.wait_for("settings of a later version have no effect")
    assert (line["level"], line["keys"]) == ("WARNING", ["quick.start"])
    assert without_api.wait_for("waiting")["waiting_for"] != "space"


def test_a_broker_on_a_full_volume_waits_with_the_remedy_and_goes_on_once_there_is_space(
    volume: Mount, without_api: BrokerProgram
) -> None:
    path = volume("size=64k")
    filler = path / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(128 << 10))
    without_api.start(data_dir=path)
    waiting = without_api.wait_for("waiting")
    assert waiting["waiting_for"] == "space"
    assert waiting["cause"] == f"data directory {path} is full: free space or let the volume grow"
    assert without_api.get("/live")[0] == 200
    filler.unlink()

    def waits_for_registration() -> bool:
        line = without_api.last_line("waiting")
        assert line is not None
        assert line["waiting_for"] == "registration", line
        return True

    eventually(waits_for_registration, TWO_REPORTS_LIMIT_MS, "the wait for the API server")


def test_a_waiting_broker_logs_what_it_waits_for_every_ten_seconds(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = objects.broker_account(control_plane, namespace)
    control_plane.apply(objects.cluster(namespace))
    waiting = {
        "127.0.0.1:1": broker_program(tmp_path / "a", kubeconfig=unreachable(tmp_path)),
        "brokers/demo-2": broker_program(
            tmp_path / "b", kubeconfig=kubeconfig, namespace=namespace, broker_id=2
        ),
    }
    try:
        for program in waiting.values():
            program.start()
        for missing, program in waiting.items():
            eventually(partial(has_reported_twice, program), TWO_REPORTS_LIMIT_MS, missing)
            (first, second, *_) = reports(program)
            late = second - first - REPORT_INTERVAL_SECONDS
            assert 0 <= late < BETWEEN_ATTEMPTS_SECONDS
            line = program.last_line("waiting")
            assert line
            assert (line["waiting_for"], line["level"]) == ("registration", "WARNING")
            assert missing in line["cause"]
            assert program.runs()
    finally:
        for program in waiting.values():
            program.clean_up()


def has_reported_twice(program: BrokerProgram) -> bool:
    return len(reports(program)) > 1


def reports(program: BrokerProgram) -> list[float]:
    """Return the times, in seconds, at which a broker logged that it waits."""
    return [
        datetime.fromisoformat(line["time"]).timestamp()
        for line in program.lines()
        if line["message"] == "waiting"
    ]
