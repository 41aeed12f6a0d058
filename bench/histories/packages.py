"""What writing and analysing histories needs: numpy, Arrow and Spark, made once in the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PREPARE_LIMIT_SECONDS: Final = 900


def made() -> str:
    """Make the packages if the cache has none, and return their folder."""
    command = [str(ROOT / "hack" / "analysis"), "env", sys.executable]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=PREPARE_LIMIT_SECONDS
    )
    return done.stdout.splitlines()[-1]


def importable() -> None:
    """Make the packages importable, here and in Spark's workers; the environment's come first."""
    folder = made()
    sys.path.append(folder)
    ours = [str(ROOT / "spark"), str(ROOT / "broker_image"), str(ROOT)]
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*ours, folder, *([before] if before else [])])
