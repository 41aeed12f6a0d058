"""The entry of a broker's process: what stands before its event loop."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from strandline.config.broker import BrokerConfig
from strandline.errors import ExitCode
from strandline.runtime import main as entry
from strandline.runtime.observability.logs import BrokerLogFormatter

ENVIRONMENT = {
    "CLUSTER_NAME": "demo",
    "POD_NAME": "demo-0",
    "POD_UID": "00000000-0000-4000-8000-000000000001",
    "POD_IP": "127.0.0.1",
    "NAMESPACE": "kafka",
    "GRPC_PORT": "0",
    "INTERNAL_PORT": "0",
    "HTTP_PORT": "0",
}
IMPORTED_OBJECTS_MIN = 10_000


def test_a_collection_of_garbage_does_not_look_at_what_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full collection stops the event loop for as long as it looks at objects."""
    frozen: list[int] = []

    async def run(_config: BrokerConfig, _log_format: BrokerLogFormatter) -> ExitCode:
        frozen.append(gc.get_freeze_count())
        return ExitCode.STOPPED

    for name, value in {**ENVIRONMENT, "DATA_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(entry, "_run", run)
    monkeypatch.setattr(entry, "configure", BrokerLogFormatter)
    file = tmp_path / "broker.yaml"
    file.write_text("{}")
    gc.unfreeze()
    try:
        assert entry.main([f"--config={file}"]) is ExitCode.STOPPED
    finally:
        gc.unfreeze()
    assert frozen[0] > IMPORTED_OBJECTS_MIN
