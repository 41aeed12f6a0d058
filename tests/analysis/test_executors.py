"""What a driver tells Spark of its executors, and what an executor's pod becomes."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from strandline_analysis import executor
from strandline_analysis.executors import (
    DriverPod,
    Executors,
    ExecutorsInvalid,
    driver_pod,
    read_executors,
    settings,
)
from strandline_analysis.java_process import OWN_OPTIONS, options_of
from strandline_analysis.stopwatch import IMPORTED, Stopwatch
from strandline_analysis.task import add_options, task_of

EXECUTORS = Executors(
    count=2,
    cores=1,
    cpu_request="500m",
    memory_mib=512,
    overhead_mib=768,
    image="localhost/analysis:1",
    pull_policy="Never",
    template="/etc/strandline/executor.yaml",
)
POD = DriverPod(name="strandline-analysis-x1", namespace="somewhere", address="10.1.2.3")
ENVIRONMENT = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_EXECUTOR_POD_NAME": "x1-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    **{f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number}" for number in (10, 9, 0)},
}


def test_executors_belong_to_the_drivers_pod_and_find_it() -> None:
    made = settings(EXECUTORS, POD)
    assert made["spark.kubernetes.driver.pod.name"] == POD.name
    assert made["spark.kubernetes.namespace"] == POD.namespace
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == POD.address
    assert made["spark.executor.instances"] == "2"
    assert made["spark.executor.memory"] == "512m"
    assert made["spark.authenticate"] == "true"


def test_two_runs_at_a_time_name_their_executors_apart() -> None:
    prefix = "spark.kubernetes.executor.podNamePrefix"
    other = replace(POD, name="strandline-analysis-x2")
    assert settings(EXECUTORS, POD)[prefix] != settings(EXECUTORS, other)[prefix]


def test_what_the_chart_says_is_read_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "executors.json"
    path.write_text(json.dumps(asdict(EXECUTORS)))
    assert read_executors(path) == EXECUTORS
    path.write_text(json.dumps({"count": 2}))
    with pytest.raises(ExecutorsInvalid, match="does not describe executors"):
        read_executors(path)


def test_executors_without_a_pod_are_refused_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(ExecutorsInvalid, match="POD_NAME is not set"):
        driver_pod({})
    named = {"POD_NAME": POD.name, "POD_NAMESPACE": POD.namespace, "POD_IP": POD.address}
    assert driver_pod(named) == POD
    path = tmp_path / "executors.json"
    path.write_text(json.dumps(asdict(EXECUTORS)))
    parser = argparse.ArgumentParser()
    add_options(parser)
    given = ["--prometheus=http://p:1", "--out=out", f"--executors={path}"]
    with pytest.raises(argparse.ArgumentError, match="in a pod of the chart"):
        task_of(parser.parse_args(given))


def test_an_executors_options_keep_the_order_of_their_numbers() -> None:
    line = executor.command(ENVIRONMENT, "a.jar:b.jar")
    assert line[:7] == [
        *("java", "-Dnumber=0", "-Dnumber=9", "-Dnumber=10", "-Xms512m", "-Xmx512m", "-cp")
    ]
    assert line[7:9] == ["a.jar:b.jar", executor.MAIN]
    assert dict(zip(line[9::2], line[10::2], strict=True)) == {
        option: ENVIRONMENT[name] for option, name in executor.OPTIONS.items()
    }


def test_an_executor_without_a_variable_of_spark_does_not_start() -> None:
    without = {name: value for name, value in ENVIRONMENT.items() if name != "SPARK_DRIVER_URL"}
    with pytest.raises(KeyError, match="SPARK_DRIVER_URL"):
        executor.command(without, "a.jar")


def test_steps_are_told_with_their_seconds_and_their_sum() -> None:
    watch = Stopwatch(began_seconds=0)
    imported = float(watch.text().splitlines()[1].split()[0])
    watch.ended("session", at_seconds=imported + 2.5)
    lines = watch.text().splitlines()
    assert lines[1].endswith(IMPORTED)
    assert lines[2].split() == ["2.50", "s", "session"]
    assert float(lines[3].split()[0]) == pytest.approx(imported + 2.5, abs=0.01)


def test_javas_options_are_found_in_what_sparks_launcher_prints() -> None:
    words = [
        "\0\nenv",
        "A=b",
        "/opt/java/bin/java",
        "-Dx=1",
        "-cp",
        "/a/*",
        "-Xmx1g",
        "--add-opens=m",
    ]
    printed = "\0".join([*words, "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]) + "\0"
    assert options_of(printed) == ["-Dx=1", "--add-opens=m", *OWN_OPTIONS]
