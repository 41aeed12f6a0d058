"""Java with classes that were loaded when the image was made, for a driver and its executors.

Called by `session` and `executor`; needs no Spark. PySpark starts Java by two scripts and a
program that finds Java's options; that and the loading of classes cost many seconds of a short run.
An image keeps the options, and packed an archive of the loaded classes that Java maps into memory.
Where there is none, PySpark starts Java itself.

Invariant: Java uses the archive only with the classpath it was made with, so there is one:
`classpath`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = "STRANDLINE_SPARK_ARCHIVE"
"""Variable of the image with the folder of OPTIONS and CLASSES."""
OPTIONS: Final = "java.options"
"""Options that Spark's launcher gives Java, one a line."""
CLASSES: Final = "classes.jsa"
PACKED: Final = "classes.jsa.zst"
"""42 MiB in place of 149 (CLASSES); to unpack it takes a quarter of a second of a processor."""
HEAP: Final = "-Xmx1g"
"""Of a driver; Spark's own default."""
OWN_OPTIONS: Final = ["-XX:-UsePerfData"]
"""Its file of figures would cost writes, for tools that no image has."""
COPY_BYTES: Final = 2**20
SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
START_SECONDS: Final = 120.0
"""Longest time until Java tells its port; on a busy machine it takes ten seconds."""
END_SECONDS: Final = 120
"""Longest time in which Java may write an archive and end."""
POLL_SECONDS: Final = 0.02
"""Pause between two looks for the file by which Java tells its port."""


class JavaEnded(RuntimeError):
    """Java ended, or was ended, before it could be spoken to; it said why on standard error."""


def kept() -> Path | None:
    """Return the folder of the image's options and packed classes, None outside of it."""
    given = os.environ.get(FOLDER, "")
    return Path(given) if given and (Path(given) / PACKED).exists() else None


def packed(classes: Path) -> None:
    """Put the packed classes into the place of the classes."""
    import pyarrow as pa  # noqa: PLC0415 - only an image has classes

    into = pa.output_stream(str(classes.with_name(PACKED)), compression="zstd")
    with classes.open("rb") as plain, into:
        shutil.copyfileobj(plain, into, COPY_BYTES)
    classes.unlink()


def unpacked(folder: Path) -> Path:
    """Unpack the image's classes, unless they are, and return the file's path.

    It is the same in every pod, since a driver tells it to its executors. Two processes may unpack
    at the same time: each one's file takes its place as a whole.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above

    classes = Path(tempfile.gettempdir()) / CLASSES
    if not classes.exists():
        with (
            pa.input_stream(str(folder / PACKED), compression="zstd") as plain,
            tempfile.NamedTemporaryFile(dir=classes.parent, delete=False) as part,
        ):
            shutil.copyfileobj(plain, part, COPY_BYTES)
        Path(part.name).replace(classes)
    return classes


def spark_home() -> Path:
    """Return the folder of PySpark, whose import would take long."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyspark")
    return Path(found.origin).parent


def classpath() -> str:
    """Return Spark's programs in one order."""
    return os.pathsep.join(map(str, sorted((spark_home() / "jars").glob("*.jar"))))


def archive_option(classes: Path) -> str:
    """Return the option that makes Java use an archive."""
    return f"-XX:SharedArchiveFile={classes}"


def launcher_options() -> list[str]:
    """Return the options with which Spark's own launcher would start Java."""
    launcher = "org.apache.spark.launcher.Main"
    printed = subprocess.run(
        ["java", "-cp", classpath(), launcher, SUBMIT, "pyspark-shell"],
        # The version would name a folder of a checkout of Spark.
        env={**os.environ, "SPARK_HOME": str(spark_home()), "SPARK_SCALA_VERSION": "2.13"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return options_of(printed)


def options_of(printed: str) -> list[str]:
    """Return Java's options of what the launcher printed: words that end with NUL.

    Before the program there may be variables; the classpath and the heap's size are ours.
    """
    words = printed.split("\0")
    program = next(at for at, word in enumerate(words) if word.strip().endswith("java"))
    options = words[program + 1 : words.index(SUBMIT)]
    at = options.index("-cp")
    kept_ones = options[:at] + options[at + 2 :]
    return [word for word in kept_ones if word and not word.startswith("-Xmx")] + OWN_OPTIONS


def start(folder: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the driver's Java, and let PySpark find it by this process's environment.

    Java ends when its standard input is closed, so also when this process is killed.

    Raises:  JavaEnded, also for one that is silent for START_SECONDS
    """
    given = [*(folder / OPTIONS).read_text().splitlines(), *options]
    command = ["java", *given, HEAP, "-cp", classpath(), SUBMIT, "pyspark-shell"]
    with tempfile.TemporaryDirectory(prefix="strandline-java-") as here:
        told = Path(here) / "told"
        added = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told),
        }
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, env={**os.environ, **added}, start_new_session=True
        )
        response = _told_by(process, told)
    port, length = (int.from_bytes(response[at : at + 4]) for at in (0, 4))
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = response[8 : 8 + length].decode()
    return process


def _told_by(java: subprocess.Popen[bytes], told: Path) -> bytes:
    """Wait for the file by which Java tells its port; without it leave no process behind."""
    silent_until = time.monotonic() + START_SECONDS
    while java.poll() is None and not told.exists() and time.monotonic() < silent_until:
        time.sleep(POLL_SECONDS)
    if told.exists():
        return told.read_bytes()
    code = java.poll()
    java.kill()
    ended(java)
    if code is None:
        raise JavaEnded(f"Java told no port within {START_SECONDS:g} s and was ended")
    raise JavaEnded(f"Java ended with exit code {code}")


def ended(java: subprocess.Popen[bytes]) -> None:
    """Let Java end, and wait until it has."""
    if java.stdin is not None:
        java.stdin.close()
    java.wait(END_SECONDS)
