"""The images run under the restricted pod security standard."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster import RESTRICTED, Cluster
from tests.support.commands import REPOSITORY, CommandError
from tests.support.eventually import eventually

pytestmark = pytest.mark.pods

IMAGES = ("broker", "operator")
IMAGE_USER = 65532

LOOK_AROUND = """
import importlib.metadata, json, os, pathlib
import strandline.model, {libraries}

def refusal(path):
    try:
        pathlib.Path(path).write_text("x")
    except OSError as error:
        return error.strerror

print(json.dumps({{
    "version": importlib.metadata.version("strandline"),
    "first process": pathlib.Path("/proc/1/comm").read_text().strip(),
    "own pid": os.getpid(),
    "user": os.getuid(),
    "group": os.getgid(),
    "write to root": refusal("/written"),
    "write to package": refusal(strandline.model.__file__ + ".written"),
    "malloc": sorted(name for name in os.environ if name.startswith("MALLOC_")),
}}))
"""


def pod(name: str, image: str, args: list[str], security: dict[str, Any] | None) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": image, "args": args}
    container["imagePullPolicy"] = "Never"
    if security is not None:
        container["securityContext"] = security
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
        },
    }


def ended_phase(cluster: Cluster, namespace: str, name: str) -> str | None:
    phase: str = cluster.get("pod", name, "-n", namespace)["status"]["phase"]
    return phase if phase in {"Succeeded", "Failed"} else None


@pytest.fixture(scope="module")
def images(cluster: Cluster) -> dict[str, str]:
    return cluster.load_images(*IMAGES)


@pytest.mark.parametrize(
    ("name", "libraries"), [("broker", "grpc, uvloop, crc32c, kubernetes"), ("operator", "kopf")]
)
def test_an_image_runs_restricted_with_tini_as_first_process(
    cluster: Cluster, pods_namespace: str, images: dict[str, str], name: str, libraries: str
) -> None:
    program = LOOK_AROUND.format(libraries=libraries)
    manifest = pod(name, images[name], ["python", "-c", program], RESTRICTED)
    manifest["metadata"]["namespace"] = pods_namespace
    cluster.apply(manifest)
    ended = eventually(lambda: ended_phase(cluster, pods_namespace, name), 60_000, f"end of {name}")
    printed = cluster.kubectl("logs", "-n", pods_namespace, name)
    assert ended == "Succeeded", printed
    seen = json.loads(printed)
    version = f'version = "{seen["version"]}"'
    assert version in (REPOSITORY / "pyproject.toml").read_text().splitlines()
    assert seen["first process"] == "tini"
    assert seen["own pid"] != 1
    assert (seen["user"], seen["group"]) == (IMAGE_USER, IMAGE_USER)
    assert seen["write to root"] == "Read-only file system"
    assert seen["write to package"] == "Read-only file system"
    assert bool(seen["malloc"]) == (name == "broker")


@pytest.mark.parametrize("missing", [None, *sorted(set(RESTRICTED) - {"readOnlyRootFilesystem"})])
def test_admission_refuses_a_pod_that_lacks_part_of_the_security_context(
    cluster: Cluster, pods_namespace: str, images: dict[str, str], missing: str | None
) -> None:
    context = (
        None if missing is None else {key: RESTRICTED[key] for key in RESTRICTED if key != missing}
    )
    manifest = pod("refused", images["broker"], ["python", "-V"], context)
    manifest["metadata"]["namespace"] = pods_namespace
    with pytest.raises(CommandError, match="violates PodSecurity") as refusal:
        cluster.apply(manifest)
    assert (missing or "allowPrivilegeEscalation") in refusal.value.error


def test_the_client_image_has_the_clients_that_people_use(
    cluster: Cluster, pods_namespace: str
) -> None:
    image = cluster.load_images("client")["client"]
    program = (
        "import confluent_kafka, kafka, strandline, subprocess\n"
        "print(subprocess.run(['kcat', '-V'], check=True, capture_output=True, text=True).stdout)\n"
    )
    manifest = pod("client", image, ["python", "-c", program], RESTRICTED)
    manifest["metadata"]["namespace"] = pods_namespace
    cluster.apply(manifest)
    ended = eventually(lambda: ended_phase(cluster, pods_namespace, "client"), 60_000, "its end")
    printed = cluster.kubectl("logs", "-n", pods_namespace, "client")
    assert ended == "Succeeded", printed
    assert "librdkafka" in printed


def test_the_prometheus_image_scrapes_itself(cluster: Cluster, pods_namespace: str) -> None:
    image = cluster.load_images("prometheus")["prometheus"]
    options = ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
    manifest = pod("prometheus", image, options, RESTRICTED)
    manifest["metadata"]["namespace"] = pods_namespace
    manifest["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    manifest["spec"]["securityContext"] = {"fsGroup": 65534}
    container = manifest["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/prometheus"}]
    cluster.apply(manifest)
    query = f"/api/v1/namespaces/{pods_namespace}/pods/prometheus:9090/proxy/api/v1/query?query=up"

    def own_sample() -> bool:
        response = json.loads(cluster.kubectl("get", "--raw", query))
        return any(
            result["metric"]["job"] == "prometheus" and result["value"][1] == "1"
            for result in response["data"]["result"]
        )

    eventually(own_sample, within_ms=90_000, what="a sample of Prometheus about itself")


def test_sigterm_of_a_pod_reaches_the_program_below_tini(
    cluster: Cluster, pods_namespace: str, images: dict[str, str]
) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('waiting', flush=True)\n"
        "signal.pause()\n"
    )
    manifest = pod("stopped", images["broker"], ["python", "-c", program], RESTRICTED)
    # The finalizer keeps the object of a deleted pod, and with it the status that tells the end.
    manifest["metadata"] |= {"namespace": pods_namespace, "finalizers": ["strandline.dev/test"]}
    cluster.apply(manifest)
    stopped = ("-n", pods_namespace, "pod/stopped")
    try:
        cluster.kubectl("wait", *stopped, "--for=condition=Ready", "--timeout=50s")
        assert cluster.exec(pods_namespace, "stopped", "cat", "/proc/1/comm").strip() == "tini"
        cluster.kubectl("delete", *stopped, "--wait=false")
        ended = "--for=jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=7"
        cluster.kubectl("wait", *stopped, ended, "--timeout=50s")
    finally:
        without_finalizers = '{"metadata": {"finalizers": null}}'
        cluster.kubectl("patch", *stopped, "--type=merge", "--patch", without_finalizers)
