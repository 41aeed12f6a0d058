"""The import contracts of pyproject.toml, tried on small packages with wrong imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.house.test_tree import LINT_IMPORTS, ROOT

MODULES = (
    "strandline/__init__.py",
    "strandline/model.py",
    "strandline/errors.py",
    "strandline/metric.py",
    "strandline/names.py",
    "strandline/log_fields.py",
    "strandline/broker_interface.py",
    "strandline/backoff.py",
    "strandline/component_settings.py",
    *(
        f"strandline/{package}/__init__.py"
        for package in ("config", "core", "controller", "controller_session", "log", "kube", "rpc")
    ),
    "strandline/kafka_listener/__init__.py",
    *(f"strandline/{package}/__init__.py" for package in ("runtime", "dump_log")),
    "strandline/runtime/main.py",
    *(
        f"strandline/runtime/{folder}/__init__.py"
        for folder in ("process", "shells", "clients", "observability", "storage", "event_loop")
    ),
    "bench/__init__.py",
    *(f"strandline_cli/{each.name}" for each in ROOT.glob("cli/strandline_cli/*.py")),
    "strandline_cli/verbs/__init__.py",
    "strandline_checker/__init__.py",
    "strandline_simulation/__init__.py",
    "strandline_operator/__init__.py",
    "strandline_api/__init__.py",
    *(f"strandline_analysis/{each.name}" for each in ROOT.glob("spark/strandline_analysis/*.py")),
    "strandline_analysis/tables/__init__.py",
    "strandline_analysis/html_report/__init__.py",
)

WRONG_IMPORTS = (
    ("strandline/core", "time"),
    ("strandline/core", "random"),
    ("strandline/controller", "asyncio"),
    ("strandline/controller", "prometheus_client"),
    ("strandline/core", "strandline.controller"),
    ("strandline/core", "strandline.log"),
    ("strandline/core", "strandline.controller_session"),
    ("strandline/controller_session", "socket"),
    ("strandline/log", "strandline.kube"),
    ("strandline/config", "strandline.core"),
    ("strandline/controller", "strandline.component_settings"),
    ("strandline_simulation", "strandline.runtime"),
    ("strandline_checker", "strandline_cli.commands"),
    ("strandline/runtime", "strandline.dump_log"),
    ("strandline/runtime/storage", "strandline.runtime.observability"),
    ("strandline/runtime/clients", "strandline.runtime.shells"),
    ("strandline/dump_log", "strandline_cli"),
    ("strandline/dump_log", "strandline_checker"),
    ("strandline/core", "strandline_simulation"),
    ("strandline_operator", "strandline_cli"),
    ("bench", "strandline_cli.verbs"),
    ("strandline/kube", "strandline_operator"),
    ("strandline/kafka_listener", "grpc"),
    ("strandline/log", "kubernetes"),
)


def lint(folder: Path, planted: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the project's contracts over empty packages that hold the planted imports."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, text in {**dict.fromkeys(MODULES, ""), **planted}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_harmless_imports_keep_every_contract(tmp_path: Path) -> None:
    done = lint(
        tmp_path,
        {
            "strandline/core/__init__.py": "import enum\nimport strandline.model\n",
            "strandline/log/__init__.py": "import os\nimport strandline.core\n",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Provide the contracts' report on packages that hold all the wrong imports."""
    planted: defaultdict[str, str] = defaultdict(str)
    for importer, imported in WRONG_IMPORTS:
        planted[f"{importer}/__init__.py"] += f"import {imported}\n"
    done = lint(tmp_path_factory.mktemp("wrong"), planted)
    assert done.returncode == 1, done.stderr
    return done.stdout.partition("Broken contracts")[2]


@pytest.mark.parametrize(("importer", "imported"), WRONG_IMPORTS)
def test_planted_import_breaks_a_contract(report: str, importer: str, imported: str) -> None:
    # The import is alone in its paragraph if a contract forbids it, and not a longer chain.
    direct = rf"\n\n- +{importer.replace('/', '.')} -> {imported} \(l\.\d+\)\n\n"
    assert re.search(direct, report), report


def test_an_import_through_a_helper_counts_too(tmp_path: Path) -> None:
    planted = {
        "strandline/core/__init__.py": "import strandline.config\n",
        "strandline/config/__init__.py": "import pathlib\n",
    }
    assert "BROKEN" in lint(tmp_path, planted).stdout
