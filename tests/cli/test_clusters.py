"""Which cluster the demo takes, and which programs it calls to bring images there.

In these tests docker, kind and kubectl are scripts that record their calls.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from strandline_cli import clusters, images, release
from strandline_cli.__main__ import main
from strandline_cli.clusters import Cluster
from strandline_cli.commands import CommandFailed, RunFailed
from strandline_cli.images import ImageSource
from strandline_cli.kubectl import Kubernetes

BUILT = "sha256:0123456789abcdef0123"
CALLED = '#!/bin/sh\necho "$(basename "$0") $*" >>"{calls}"\n'
LACKS = "#!/bin/sh\necho 'This machine lacks: Go' >&2\nexit 1\n"


class Programs:
    """Scripts that are first in PATH, and the record of their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def put(self, name: str, does: str = "") -> None:
        """Make a program that records its call, then runs these shell lines."""
        noting = CALLED.format(calls=self.folder / "calls")
        (self.folder / name).write_text(f"{noting}{does}\n")
        (self.folder / name).chmod(0o755)

    def calls(self, beginning: str) -> list[str]:
        """Return the calls that begin with this text."""
        noted = (self.folder / "calls").read_text().splitlines()
        return [each for each in noted if each.startswith(beginning)]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Provide working programs for kind, no kind cluster, and an empty cache."""
    made = Programs(tmp_path / "bin")
    made.put("docker", f'case $1 in build) echo "{BUILT}" ;; esac')
    for name in ("kind", "kubectl", "helm"):
        made.put(name)
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    monkeypatch.setenv("STRANDLINE_CACHE", str(tmp_path / "cache"))
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a repository on a machine that lacks what the cluster under hack/ needs."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "machine").write_text(LACKS)
    (tmp_path / ".ci" / "machine").chmod(0o755)
    return tmp_path


# --- which cluster ------------------------------------------------------------------------


def test_kind_is_taken_where_its_programs_work(programs: Programs, root: Path) -> None:
    environment = clusters.choose(root, "", print)
    assert (environment.kind, environment.started) == ("kind", True)
    (created,) = programs.calls("kind create")
    assert f"--name {clusters.KIND_NAME}" in created
    assert f"--config {root / 'kind-config.yaml'}" in created
    assert f"--kubeconfig {environment.kubeconfig}" in created


@pytest.mark.parametrize("broken", ["docker", "kind", "kubectl", "helm"])
def test_a_missing_program_of_kind_is_named(programs: Programs, root: Path, broken: str) -> None:
    programs.put(broken, "echo 'does not work here' >&2; exit 3")
    with pytest.raises(RunFailed, match=rf"lacks: Go\n(.*\n)+  - {broken} .*does not work here"):
        clusters.choose(root, "", print)
    with pytest.raises(RunFailed, match=rf"CLUSTER=kind needs .*\n  - {broken} .*not work here"):
        clusters.choose(root, "kind", print)
    assert programs.calls("kind create") == []


def test_an_existing_kind_cluster_is_used_and_not_taken_over(
    programs: Programs, root: Path
) -> None:
    programs.put("kind", f'case "$*" in "get clusters") echo {clusters.KIND_NAME} ;; esac')
    environment = clusters.choose(root, "kind", print)
    assert not environment.started
    assert programs.calls("kind create") == []
    assert programs.calls("kind export kubeconfig")


def test_half_a_cluster_is_remembered_so_that_it_can_be_deleted(
    programs: Programs, root: Path
) -> None:
    programs.put("kind", 'case "$1" in create) exit 130 ;; esac')
    with pytest.raises(CommandFailed, match="status 130"):
        clusters.choose(root, "kind", print)
    half = clusters.remembered()
    assert half is not None
    assert half.started
    clusters.remove_cluster(root, half, print)
    (deleted,) = programs.calls("kind delete")
    assert f"--name {clusters.KIND_NAME}" in deleted
    assert f"--kubeconfig {half.kubeconfig}" in deleted


def test_no_copy_of_a_kubeconfig_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_CACHE", str(tmp_path))
    folder = clusters.cache_folder()
    for name in ("kind.kubeconfig", "current.kubeconfig"):
        (folder / name).write_text("token: secret")
    clusters.remember(Cluster(kind="kind", kubeconfig="/k", programs="", started=True))
    clusters.forget()
    assert list(folder.iterdir()) == []


# --- images -------------------------------------------------------------------------------


def test_images_for_kind_are_built_named_by_content_and_loaded(
    programs: Programs, root: Path
) -> None:
    environment = Cluster(kind="kind", kubeconfig="/k", programs="", started=True)
    found = images.load_images(
        root, environment, ["broker", "operator"], print, source=ImageSource()
    )
    assert found["operator"] == "localhost/strandline-operator:1.2.3-0123456789ab"
    assert programs.calls("docker build") == [
        f"docker build --quiet --file {root / images.DOCKERFILES[name]} {root}" for name in found
    ]
    assert programs.calls("docker tag") == [f"docker tag {BUILT} {to}" for to in found.values()]
    assert programs.calls("kind load") == [
        f"kind load docker-image {reference} --name {clusters.KIND_NAME}"
        for reference in found.values()
    ]
    assert list(ImageSource().movable(environment)) == []
    images.load_images(root, environment, ["broker"], print, source=ImageSource(), node="one")
    assert programs.calls("kind load")[-1].endswith("--nodes one")


def test_the_demo_looks_for_the_images_that_were_pushed(programs: Programs, root: Path) -> None:
    source = ImageSource(repository="example.org/team/")
    images.push_images(root, source.repository, print)
    environment = Cluster(kind="current", kubeconfig="/k", programs="", started=False)
    names = list(source.movable(environment))
    found = images.load_images(root, environment, names, print, source=source)
    assert found["analysis"] == "example.org/team/strandline-analysis:1.2.3"
    assert programs.calls("docker push") == [
        f"docker push --quiet {reference}" for reference in found.values()
    ]
    assert programs.calls("docker tag") == [f"docker tag {BUILT} {to}" for to in found.values()]


def test_a_push_writes_the_values_that_name_the_pushed_images(
    programs: Programs, root: Path
) -> None:
    images.push_images(root, "example.org/team", print)
    written = yaml.safe_load((root / images.VALUES).read_text())
    for name in images.CHART_IMAGES:
        repository = f"example.org/team/strandline-{name}"
        assert written[name]["image"] == {"repository": repository, "tag": "1.2.3"}
    assert "client" not in written


def test_pushing_needs_a_repository(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.delenv("IMAGES", raising=False)
    assert main(["demo", "--push"]) == 1
    assert "needs IMAGES=<repository>" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("repository", "load", "advice"),
    [
        ("example.org/team", "", "make push IMAGES=example.org/team"),
        ("", "kind load image-archive", "LOAD='kind load image-archive' must bring"),
    ],
)
def test_a_missing_image_comes_with_advice(repository: str, load: str, advice: str) -> None:
    source = ImageSource(repository=repository, load=load)
    environment = Cluster(kind="current", kubeconfig="/k", programs="", started=False)
    assert source.advice(environment).startswith(advice)


# --- CRDs of the release ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "brings"),
    [
        ("exit 1", True),
        (
            """echo '{"metadata": {"annotations": {"meta.helm.sh/release-namespace": "ours"}}}'""",
            True,
        ),
        (
            """echo '{"metadata": {"annotations": {"meta.helm.sh/release-namespace": "b"}}}'""",
            False,
        ),
        ("""echo '{"metadata": {}}'""", False),
    ],
)
def test_a_release_brings_the_crds_unless_another_owns_them(
    programs: Programs, tmp_path: Path, printed: str, brings: bool
) -> None:
    programs.put("kubectl", printed)
    assert release.brings_definitions(Kubernetes(tmp_path / "k", "ours")) == brings
