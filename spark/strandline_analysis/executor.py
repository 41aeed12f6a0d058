"""The process of an executor's pod: Spark's own program, with what the driver told it.

Spark tells an executor by environment variables. A program of Spark's images, which are not used
here, turns them into a command line; this module is ours. It must start nothing else: the executor
is the container's process, and ends with it.

Source:  apache/spark:resource-managers/kubernetes/docker/src/main/dockerfiles/spark/entrypoint.sh
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from .java_process import classpath, kept, unpacked

MAIN: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTIONS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Option of Spark's program to the variable that holds its value."""
JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(environment: Mapping[str, str], programs: str) -> list[str]:
    """Return the command line of an executor.

    Raises:  KeyError for a variable that Spark did not set
    """
    numbered = {
        int(found[1]): value
        for name, value in environment.items()
        if (found := JAVA_OPTION.fullmatch(name))
    }
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    given = [word for option, name in OPTIONS.items() for word in (option, environment[name])]
    # In order of their numbers: an option may be the value of the one before it.
    java = ["java", *(numbered[each] for each in sorted(numbered))]
    return [*java, f"-Xms{memory}", f"-Xmx{memory}", "-cp", programs, MAIN, *given]


def main() -> None:
    """Become the executor."""
    line = command(os.environ, classpath())
    if (folder := kept()) is not None:
        # The driver's options name the file.
        unpacked(folder)
    os.execvp(line[0], line)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
