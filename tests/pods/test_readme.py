"""The README's commands, as they stand there, on a real cluster in a user's order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from strandline_cli import release
from strandline_cli.kubectl import Kubernetes
from tests.support.cluster import Cluster
from tests.support.commands import programs
from tests.support.documented import under
from tests.support.eventually import eventually
from tests.support.reader import WATCH, Reader

pytestmark = pytest.mark.pods

README = "README.md"
UNDELETE_MS = 60_000
LOOK_MS = 60_000
READY = ["kubectl", "wait", "rtopic/orders", "--for=condition=Ready", "--timeout=2m"]


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """Provide a reader on a cluster without definitions, and remove what a failed walk left."""
    kubernetes = Kubernetes(cluster.kubeconfig, "strandline", programs())
    ours = (*release.DEFINITIONS, *release.POLICY, *release.ROLES)
    cluster.kubectl("delete", "--ignore-not-found", *ours)
    yield Reader(tmp_path, cluster, cluster.load_images("broker", "operator", "client"))
    release.remove(kubernetes)
    cluster.kubectl("delete", "--ignore-not-found", *ours)


def test_a_reader_installs_connects_breaks_looks_and_removes(reader: Reader) -> None:
    said = [reader.types(line) for line in under(README, "Install") if "make push" not in line]
    for line in _notes(next(each for each in said if "NOTES:" in each)):
        reader.types(line)
    connected = [reader.types(line) for line in under(README, "Connect")]
    assert connected[-1].split() == [str(number) for number in range(1, 101)]
    for line in under(README, "Break"):
        printed = reader.types(line)
        assert WATCH not in line or printed.startswith("NAME")
        reader.types(" ".join(READY))
    for line in under(README, "Look"):
        if not line.startswith("strandline") or line.startswith("strandline status --namespace"):
            # The container that was killed comes back a moment after the topic is Ready.
            eventually(partial(_shows_orders, reader, line), LOOK_MS, line)
    reader.types("strandline status --namespace strandline")
    traps = under(README, "Known traps")
    for line in traps:
        if line.startswith("kubectl"):
            reader.types(line)
    removal = under(README, "Remove")
    reader.types(removal[0])
    _bring_back(reader, next(line for line in traps if line.startswith("strandline undelete")))
    # The topic is Ready a moment before its leader knows again how far records are committed.
    eventually(partial(_has_all, reader), LOOK_MS, "every record")
    for line in removal:
        reader.types(line)


def _has_all(reader: Reader) -> bool:
    shown = reader.types(under(README, "Connect")[-1]).split()
    found = reader.types("kubectl get partitions.strandline.dev orders-0 -o jsonpath='{.status}'")
    said = f"{len(shown)} lines, the last {shown[-1:]}; orders-0: {found}"
    assert shown == [str(number) for number in range(1, 101)], said
    return True


def _shows_orders(reader: Reader, line: str) -> bool:
    return "orders" in reader.types(line)


def _notes(printed: str) -> list[str]:
    """Return the commands of the notes that Helm printed, heredocs with their texts."""
    heredoc = r"kubectl .*<<'?(\w+)'?\n(?:.*\n)*? *\2"
    found = re.findall(rf"^ *({heredoc}|kubectl .*)$", printed, re.MULTILINE)
    assert found
    return [line for line, _ in found]


def _bring_back(reader: Reader, line: str) -> None:
    """Type `strandline undelete`, which knows of a log a moment after its topic went."""
    eventually(lambda: reader.types(line) or "done", UNDELETE_MS, line)
    reader.types(" ".join(READY))
