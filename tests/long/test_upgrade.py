"""The upgrade from an earlier revision and back, under load, with chart and images of history.

The revision is UPGRADE_FROM of the environment, else FROM. Its images are built by its own
`hack/images`, in a minute or two each; that, and two rolls, is too long for `make test`.
"""

from __future__ import annotations

import os
import tarfile
import uuid
from pathlib import Path
from typing import Final

import pytest

from strandline_cli.release import BROKERS
from tests.support.cluster import Cluster
from tests.support.commands import REPOSITORY, run
from tests.support.installed import Installed
from tests.support.strandline_objects import install_crds

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

FROM: Final = "e63ed00"
"""The revision that clusters got versions with; the last release, once CHANGELOG.md names one."""
FORMER, PRESENT = "0.0.9", "0.1.0"
"""Both revisions call themselves 0.1.0, so the chart's table names the former one otherwise."""
ROLL_LIMIT_MS = 300_000


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tree of the earlier revision."""
    folder = tmp_path_factory.mktemp("former")
    archive = folder / "tree.tar"
    revision = os.environ.get("UPGRADE_FROM") or FROM
    run(["git", "-C", str(REPOSITORY), "archive", f"--output={archive}", revision])
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="tar")
    return folder


def test_from_an_earlier_revision_and_back_under_load_no_record_fails(
    cluster: Cluster, former: Path
) -> None:
    before = cluster.load_images("broker", "operator", root=former)
    present = cluster.load_images("broker", "operator", "client")
    assert before["broker"] != present["broker"]
    install_crds(cluster)
    namespace = f"upgrade-{uuid.uuid4().hex[:8]}"
    cluster.create_restricted_namespace(namespace)
    chart = former / "helm" / "strandline"
    try:
        installed = Installed(cluster, namespace, {**present, **before}, chart=chart)
        with installed.under_load("upgraded") as run_:
            pods = run_.view.seen().pods
            version = FORMER.replace(".", "\\.")
            installed.helm("upgrade", present, f"broker.versions.{version}={before['broker']}")
            run_.wait_for_acks(2_000)
            assert run_.view.seen().pods == pods
            for name, image in ((PRESENT, present["broker"]), (FORMER, before["broker"])):

                def follow(name: str = name, image: str = image) -> None:
                    installed.set_version(name)
                    installed.wait_images(image, ROLL_LIMIT_MS)

                run_.short_fault(f"brokers to {name}", follow)
            pods = run_.view.seen().pods
            installed.helm("upgrade", before, chart=chart)
            run_.wait_for_acks(2_000)
            assert run_.view.seen().pods == pods
            assert len(pods) == BROKERS
            verdict = run_.judged()
            assert (verdict.failed, verdict.unknown) == (0, 0)
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
