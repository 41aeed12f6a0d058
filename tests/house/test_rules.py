"""Every house rule catches an offence planted into a small tree, and passes a harmless tree."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house import circular_imports, owned_things, reached_modules
from tests.house.rules import (
    circles,
    conduct,
    decisions,
    layers,
    ownership,
    promises,
    reach,
    references,
    registers,
    shape,
    style,
    vocabulary,
    walks,
    words,
)
from tests.house.test_tree import ROOT, RULES, Rule

CORE = "broker_image/strandline/core/x.py"
OWNER = "class A:\n    end: int\n    def f(self):\n        self.ends = []\n"
LOG = "broker_image/strandline/log/x.py"
SESSION = "broker_image/strandline/controller_session/x.py"
ANALYSIS = "spark/strandline_analysis/x.py"
OPERATOR = "operator/strandline_operator/x.py"
SIMULATOR = "cli/strandline_simulation/x.py"
NAMES = "broker_image/strandline/names.py"
ERRORS = "broker_image/strandline/errors.py"
CONFIG = "broker_image/strandline/config/x.py"
METRICS = "broker_image/strandline/runtime/observability/metrics.py"
DOC = '"""Says what it is."""\n'
FLOOR = "[floor]\nfast = 3\nprocesses = 1\npods = 1\nlong = 1\n"
PROJECT = """[project]
name = "strandline"
dependencies = ["one==1.0"]
[project.optional-dependencies]
analysis = []
broker = []
operator = []
dev = ["strandline[broker]"]
"""
SETTING = """class Concern:
    a: int = integer("a.ms", 1)

    def check(self):
        self.a

    def in_seconds(self):
        return self.a / 1000

class BrokerConfig:
    part: Concern
"""
UNOBEYED = "no code obeys a.ms (Concern.a)"
PINNED = f"one==1.0 \\\n    --hash=sha256:{'0' * 64}\n"
LISTS = {str(path): PINNED for path in registers.REQUIREMENTS.values()}
STRICT = "[tool.mypy]\nstrict = true\n"
OVERRIDE = "[[tool.mypy.overrides]]\n"
MAKEFILE = "help: ## list the verbs\nproto: ## generate\n"
ROW = f"{NAMES}: no module exports LAG"
TABLE = "| Promise | Test or command | State |\n|---|---|---|\n"
NUMBERS = "| Number | What must happen | Source | Test |\n|---|---|---|---|\n"
T8 = "| T8 | a | b | `tests/core/test_x.py` |\n"
UNDEFINED = "T" + "99"
OF_A_TEST = {"tests/core/test_y.py": "def test_" + "t99_a() -> None: ...\n"}
TEST_FILE = {"tests/core/test_x.py": "def test_a() -> None: ...\n"}
NUMBER = "#" + "12"
FOLDER = f"/{'root'}/x"
REGISTRY = f"pypi{'.'}org"
UNFINISHED = "TO" + "DO"
PAGE = "docs/adr/0001-one.md"
INDEX = "docs/adr/README.md"
DECISION = """# 0001 One

- Date: 2026-11-21
- Status: accepted

## Context
A.

## Decision
B.

## Rejected alternatives
- **C.** It is worse.

## Cost
D.

## Revisit when
E.
"""
INDEX_ROW = "| [0001](0001-one.md) | One | accepted | In a line. |\n"
LISTING = "tests/house/rules/x.py"
CONTRACT = '[tool.x]\nlayers = ["(strandline.core) | (strandline.log)"]\n'
IGNORES = '[tool.ruff.lint.per-file-ignores]\n"broker_image/strandline/{core,log}/**" = []\n'
CLASS = f"{DOC}class Machine:\n    {DOC}    def step(self): ...\n"


def decided(page: str = DECISION, row: str = INDEX_ROW) -> dict[str, str]:
    return {PAGE: page, INDEX: row}


HOP = f"1. `{CORE.removeprefix('broker_image/strandline/')}` `Machine.step`: it decides.\n"


def walked(*hops: str) -> dict[str, str]:
    walks = "".join(f"### {title}\n{''.join(hops)}\n" for title in ("A", "B", "C"))
    return {"ARCHITECTURE.md": f"## Walks\n{walks}## Else\n### D\n", CORE: CLASS}


class Planted(NamedTuple):
    """A tree with an offence, and part of the sentence that must name it."""

    rule: Rule
    files: dict[str, str]
    sentence: str


def promised(row: str) -> dict[str, str]:
    index = "[x](acceptance/x.md)\n"
    return {"docs/acceptance.md": index, "docs/acceptance/x.md": TABLE + row, **TEST_FILE}


def defined(row: str, prose: str = "") -> dict[str, str]:
    return {"docs/protocol.md": NUMBERS + row, "docs/x.md": prose, **TEST_FILE}


OFFENCES = (
    Planted(shape.too_long, {CORE: "x = 1\n" * 301}, "301 lines, at most 300"),
    Planted(shape.too_long, {LOG: "x = 1\n" * 501}, "501 lines, at most 500"),
    Planted(shape.too_long, {LOG: "def f():\n" + "    x = 1\n" * 60}, "f has 61 lines"),
    Planted(shape.undocumented, {LOG: "x = 1\n"}, "no module docstring"),
    Planted(shape.undocumented, {LOG: f"{DOC}def f(): ...\n"}, "f has no docstring"),
    Planted(shape.undocumented, {LOG: f"{DOC}class C: ...\n"}, "C has no docstring"),
    Planted(
        shape.undocumented,
        {LOG: f"{DOC}class C:\n    {DOC}    def m(self): ...\n"},
        "m has no docstring",
    ),
    Planted(conduct.impure, {CORE: "f = open('x')\n"}, "calls open"),
    Planted(conduct.impure, {CORE: "print(1)\n"}, "calls print"),
    Planted(conduct.impure, {CORE: "async def f(): ...\n"}, "is asynchronous"),
    Planted(conduct.impure, {CORE: "def f():\n    global x\n    x = 1\n"}, "keeps state"),
    Planted(ownership.foreign_changes, {CORE: "self.log.end = 1\n"}, "changes self.log.end"),
    Planted(ownership.foreign_changes, {CORE: "a, role.state = 1, 2\n"}, "changes role.state"),
    Planted(ownership.foreign_changes, {CORE: "del a.delayed[tp]\n"}, "changes a.delayed"),
    Planted(ownership.foreign_changes, {SESSION: "self.a.b[0].pop()\n"}, "changes self.a.b"),
    Planted(ownership.strayed_changes, {LOG: OWNER, CORE: "log.end = 1\n"}, "changes log.end"),
    Planted(ownership.strayed_changes, {LOG: OWNER, CORE: "log.ends.pop()\n"}, "not of this file"),
    Planted(conduct.unfinished, {LOG: "assert True\n"}, "assert"),
    Planted(conduct.unfinished, {LOG: "raise NotImplementedError\n"}, "NotImplementedError"),
    Planted(
        conduct.swallowing, {LOG: "try:\n    x\nexcept Exception:\n    y\n"}, "catches everything"
    ),
    Planted(conduct.swallowing, {LOG: "try:\n    x\nexcept:\n    y\n"}, "catches everything"),
    Planted(
        conduct.swallowing,
        {LOG: "try:\n    x\nexcept (KeyError, BaseException):\n    y\n"},
        "catches everything",
    ),
    Planted(conduct.sleeping, {"tests/core/test_x.py": "time.sleep(1)\n"}, "sleeps"),
    Planted(conduct.sleeping, {"tests/core/test_x.py": "await asyncio.sleep(0.1)\n"}, "sleeps"),
    Planted(conduct.unexplained_type_ignores, {LOG: "x = 1  # type: ignore\n"}, "code"),
    Planted(conduct.unexplained_type_ignores, {LOG: "x = 1  # type: ignore[x]\n"}, "reason"),
    Planted(
        conduct.unexplained_type_ignores,
        {LOG: "x = 1  # type: ignore[x]  # why\n" * 21},
        "21 type ignores",
    ),
    Planted(layers.forbidden_imports, {LOG: "import strandline.core.leader\n"}, "core.leader"),
    Planted(layers.forbidden_imports, {LOG: "from strandline.core import leader\n"}, "core.leader"),
    Planted(layers.forbidden_imports, {LOG: "from ..kube import lease\n"}, "kube.lease"),
    Planted(layers.forbidden_imports, {LOG: "import strandline_api.v1\n"}, "strandline_api"),
    Planted(layers.forbidden_imports, {CORE: "from strandline.log import x\n"}, "log.x"),
    Planted(layers.forbidden_imports, {OPERATOR: "import strandline.core.leader\n"}, "core.leader"),
    Planted(layers.forbidden_imports, {ANALYSIS: "import strandline.model\n"}, "strandline.model"),
    Planted(layers.forbidden_imports, {METRICS: "import strandline_api\n"}, "strandline_api"),
    Planted(layers.forbidden_imports, {LOG: "import strandline_checker\n"}, "strandline_checker"),
    Planted(layers.forbidden_imports, {SIMULATOR: "import strandline.log.x\n"}, "log.x"),
    *(Planted(circles.import_circles, *offence) for offence in circular_imports.OFFENCES),
    *(Planted(ownership.broken_ownership, *offence) for offence in owned_things.OFFENCES),
    Planted(layers.ambiguous_names, {"broker_image/strandline/types.py": ""}, "misleads"),
    Planted(layers.ambiguous_names, {"operator/__init__.py": ""}, "operator module"),
    Planted(words.forbidden_words, {"docs/x.md": f"as told in {NUMBER}"}, NUMBER),
    Planted(words.forbidden_words, {LOG: f"x = 1  # fixes {NUMBER}"}, NUMBER),
    Planted(words.forbidden_words, {"hack/x": f"cd {FOLDER}"}, "path of one machine"),
    Planted(words.forbidden_words, {"hack/x": f"curl {REGISTRY}"}, "package registry"),
    Planted(words.forbidden_words, {LOG: f"# see {'design'}.md"}, "not here"),
    Planted(words.forbidden_words, {LOG: f"# {UNFINISHED}: later"}, "unfinished"),
    Planted(
        registers.metric_names_elsewhere, {LOG: "x = 'strandline_lag_seconds'\n"}, "belongs in"
    ),
    Planted(registers.metrics_without_exporter, {}, "missing"),
    Planted(registers.metrics_without_exporter, {NAMES: "x = 1\n"}, "declares no metric"),
    Planted(registers.metrics_without_exporter, {NAMES: "LAG = gauge()\n", METRICS: ""}, ROW),
    Planted(
        registers.repeated_error_numbers,
        {ERRORS: "class ErrorCode:\n    A = 1\n    B = 1\n"},
        "number 1 twice",
    ),
    Planted(registers.repeated_error_numbers, {ERRORS: ""}, "no ErrorCode"),
    Planted(registers.loose_requirements, {"pyproject.toml": PROJECT}, "lacks one==1.0"),
    Planted(
        registers.lost_extras,
        {"requirements/dev.txt": "pytest-cov==1.0\ncoverage==1.0\n"},
        "pytest-cov asks for coverage[toml]",
    ),
    Planted(
        registers.loose_requirements,
        {**LISTS, "pyproject.toml": PROJECT.replace("one==1.0", "one")},
        "one is not pinned",
    ),
    Planted(
        registers.loose_requirements,
        {**LISTS, "pyproject.toml": PROJECT, "requirements/dev.txt": "one==1.0\n"},
        "no hash",
    ),
    Planted(
        registers.loose_requirements,
        {**LISTS, "pyproject.toml": PROJECT, "requirements/dev.txt": f"--pre\n{PINNED}"},
        "an option",
    ),
    Planted(
        registers.loosened_types, {"pyproject.toml": "[tool.mypy]\nstrict = false\n"}, "not strict"
    ),
    Planted(
        registers.loosened_types,
        {"pyproject.toml": f"{STRICT}disallow_any_generics = false\n"},
        "mypy.disallow_any_generics = False",
    ),
    Planted(
        registers.loosened_types,
        {"pyproject.toml": f"{STRICT}{OVERRIDE}module = ['a.*']\nignore_errors = true\n"},
        "mypy is loosened for ['a.*']: {'ignore_errors': True}",
    ),
    Planted(
        registers.loosened_types,
        {"pyproject.toml": f"{STRICT}{OVERRIDE}module = ['*']\nignore_missing_imports = true\n"},
        "mypy is loosened for *",
    ),
    Planted(registers.wrong_verbs, {"Makefile": MAKEFILE + "x:\n"}, "x has no help"),
    Planted(registers.wrong_verbs, {"Makefile": "x: ## does\n"}, "no help"),
    Planted(
        registers.wrong_verbs,
        {"Makefile": MAKEFILE, "README.md": "say `make fly`"},
        "no verb `make fly`",
    ),
    Planted(registers.stale_generated_code, {"protos/x.py": ""}, "no source"),
    *(Planted(reach.unreached_modules, *case) for case in reached_modules.OFFENCES),
    Planted(reach.unread_settings, {CONFIG: ""}, "declares no setting"),
    Planted(reach.unread_settings, {CONFIG: SETTING}, UNOBEYED),
    Planted(reach.unread_settings, {CONFIG: SETTING, LOG: "of_another.a\n"}, UNOBEYED),
    Planted(reach.unread_settings, {CONFIG: SETTING, LOG: "config.part.check()\n"}, UNOBEYED),
    Planted(promises.unkept_promises, {}, "missing"),
    Planted(promises.unkept_promises, promised(""), "no rows"),
    Planted(
        promises.unkept_promises,
        {**promised("| a | | missing |"), "docs/acceptance/y.md": ""},
        "lists ['x.md'], there are ['x.md', 'y.md']",
    ),
    Planted(promises.unkept_promises, promised("| a | | done |"), "state 'done'"),
    Planted(promises.unkept_promises, promised("| a | missing |"), "2 columns"),
    Planted(promises.unkept_promises, promised("| a | | seen |"), "without a test"),
    Planted(promises.unkept_promises, promised("| a | `make proto` | seen |"), "without a test"),
    Planted(promises.unkept_promises, promised("| a | | partial |"), "without a test or command"),
    Planted(promises.unkept_promises, promised("| a | `make proto` | measured |"), "is none"),
    Planted(
        promises.unkept_promises,
        promised("| a | | watched 2026-01-02 at 0123abc |"),
        "without a test or command",
    ),
    Planted(promises.unkept_promises, promised("| a | | missing |\n" * 2), "promised before"),
    Planted(promises.unkept_promises, promised("| a | `tests/core/test_y.py` | seen |"), "test_y"),
    Planted(
        promises.unkept_promises,
        promised("| a | `tests/core/test_x.py::test_b` | partial |"),
        "test_b",
    ),
    Planted(promises.unkept_promises, promised("| a | `fly` | partial |"), "no such command"),
    Planted(promises.unkept_promises, promised("| a | `make fly` | partial |"), "no such verb"),
    Planted(promises.undefined_numbers, {}, "missing"),
    Planted(promises.undefined_numbers, defined(""), "defines no number"),
    Planted(promises.undefined_numbers, defined("| T8 | a |"), "not number"),
    Planted(promises.undefined_numbers, defined("| T8 | a | | `tests/core/test_x.py` |"), "lacks"),
    Planted(promises.undefined_numbers, defined("| T8 | a | b | |"), "lacks a meaning"),
    Planted(promises.undefined_numbers, defined(T8.replace("_x", "_y")), "no such test"),
    Planted(promises.undefined_numbers, defined(T8 * 2), "T8 is defined before"),
    Planted(promises.undefined_numbers, defined(T8, f"as in {UNDEFINED}."), UNDEFINED),
    Planted(promises.undefined_numbers, defined(T8, "holds I1-I2"), "I2 is not in"),
    Planted(promises.undefined_numbers, defined(T8) | {"tests/t99_a.txt": ""}, UNDEFINED),
    Planted(promises.undefined_numbers, defined(T8) | OF_A_TEST, UNDEFINED),
    Planted(promises.hollow_floor, {"tests/floor.toml": "[floor]\nfast = 3\n"}, "tiers are"),
    Planted(promises.hollow_floor, {"tests/floor.toml": FLOOR.replace("3", "0")}, "fast = 0"),
    Planted(decisions.incomplete_decisions, {}, "no decision"),
    Planted(decisions.incomplete_decisions, {PAGE: DECISION}, "README.md: missing"),
    Planted(decisions.incomplete_decisions, decided(row=""), "does not list 0001-one.md"),
    Planted(decisions.incomplete_decisions, decided(row=INDEX_ROW.replace("One", "Two")), "'Two'"),
    Planted(
        decisions.incomplete_decisions,
        decided(row=INDEX_ROW + INDEX_ROW.replace("0001", "0002")),
        "lists 0002-one.md, which does not exist",
    ),
    Planted(
        decisions.incomplete_decisions,
        {**decided(), "docs/adr/0003-three.md": DECISION},
        "0003-three.md: follows 0001",
    ),
    Planted(decisions.incomplete_decisions, {"docs/adr/one.md": DECISION}, "not named NNNN"),
    Planted(decisions.incomplete_decisions, decided(DECISION[3:]), "number and title"),
    Planted(decisions.incomplete_decisions, decided(DECISION.replace("11-21", "13")), "no date"),
    Planted(
        decisions.incomplete_decisions, decided(DECISION.replace("accepted", "old")), "status 'old'"
    ),
    Planted(decisions.incomplete_decisions, decided(DECISION.replace("D.", "")), "Cost is empty"),
    Planted(decisions.incomplete_decisions, decided(DECISION.replace("## Cost", "")), "sections"),
    Planted(
        decisions.incomplete_decisions,
        decided(DECISION.replace(" It is worse.", "")),
        "a rejected alternative",
    ),
    Planted(references.dangling_names, {"README.md": "see `core/y.py`", CORE: ""}, "core/y.py"),
    Planted(references.dangling_names, {"README.md": "see `cores/`", CORE: ""}, "cores/"),
    Planted(references.dangling_names, {"README.md": "see bench/run.py"}, "bench/run.py"),
    Planted(references.dangling_names, {"docs/x.md": "[it](y.md)", "y.md": ""}, "no y.md"),
    Planted(references.dangling_names, {LOG: '"""Used by `core.y`."""\n', CORE: ""}, "core.y"),
    Planted(references.dangling_names, {LOG: '"""Used by `y.py`."""\n'}, "y.py"),
    Planted(
        references.dangling_names, {LOG: f'{DOC}x = 1\n"""See `core.x.Y`."""\n', CORE: ""}, "Y"
    ),
    Planted(
        references.dangling_names, {CORE: CLASS, LOG: '"""As `Machine.stop`."""\n'}, "Machine.stop"
    ),
    Planted(references.dangling_names, {LOG: '"""As `Machine`."""\n'}, "no Machine"),
    Planted(references.dangling_names, {CONFIG: SETTING, "docs/x.md": "`b.ms: 1`"}, "no b.ms"),
    Planted(references.dangling_names, {"docs/x.md": "| `b.ms` | | partial |"}, "no b.ms"),
    Planted(references.dangling_names, {CONFIG: SETTING, "docs/x.md": "set a.b.ms"}, "a.b.ms"),
    Planted(references.dangling_names, {**decided(), LOG: '"""See ADR 0002."""\n'}, "ADR 0002"),
    Planted(
        references.dangling_names, {"README.md": "```modules\ncore | y  # z\n```\n", CORE: ""}, "y"
    ),
    Planted(references.dangling_names, {LISTING: "A = tree.BROKER / 'y.py'\n"}, "strandline/y.py"),
    Planted(references.dangling_names, {LISTING: "A = Path('docs/y.md')\n"}, "lists docs/y.md"),
    Planted(references.dangling_names, {LISTING: "A = 'strandline.y'\n"}, "lists strandline.y"),
    Planted(references.dangling_names, {"pyproject.toml": CONTRACT, CORE: ""}, "strandline.log"),
    Planted(references.dangling_names, {"pyproject.toml": IGNORES, CORE: ""}, "strandline/log/**"),
    Planted(vocabulary.retired_words, {LOG: "class Offi" + "ce: ...\n"}, "is ControllerElection"),
    Planted(
        vocabulary.repeated_classes, {LOG: "class A: ...\n", CORE: "class A: ...\n"}, "class A"
    ),
    Planted(vocabulary.second_words, {LOG: "answer = 1\n"}, "answer, the word is response"),
    Planted(vocabulary.second_words, {LOG: "def f(question): ...\n"}, "the word is request"),
    Planted(vocabulary.second_words, {CORE: "def isr_request(): ...\n"}, "the word is proposal"),
    Planted(vocabulary.long_glossary, {"docs/glossary.md": "a\n" * 61}, "61 lines, at most 60"),
    Planted(vocabulary.long_glossary, {"docs/glossary.md": "| a | b | c |\n"}, "not four columns"),
    Planted(style.many_ways, {LOG: "log = logging.getLogger(__name__)\n"}, "is _log, not log"),
    Planted(style.many_ways, {LOG: "from strandline.log.y import z\n"}, "imported as .y"),
    Planted(style.many_ways, {LOG: "_log.info('a', extra={'b': 1})\n"}, "extra=fields(...)"),
    Planted(walks.broken_walks, {"ARCHITECTURE.md": "## Walks\n### A\n"}, "1 walks, at least 3"),
    Planted(walks.broken_walks, walked(), "A: 0 hops, 1 to 15"),
    Planted(walks.broken_walks, walked(HOP * 16), "A: 16 hops, 1 to 15"),
    Planted(walks.broken_walks, walked(HOP, HOP), "C, 2: has the number 1"),
    Planted(walks.broken_walks, walked(HOP.replace("core/", "x/")), "there is no x/"),
    Planted(walks.broken_walks, walked(HOP.replace(".step", ".stop")), "no function Machine.stop"),
    Planted(walks.broken_walks, walked("1. The core decides.\n"), "not `file` `function`: text"),
)

HARMLESS: tuple[tuple[Rule, dict[str, str]], ...] = (
    (shape.too_long, {CORE: "x = 1\n" * 300, LOG: "def f():\n" + "    x = 1\n" * 59}),
    (shape.too_long, {"protos/strandline_api/v1/x_pb2.py": "x = 1\n" * 900}),
    (shape.undocumented, {LOG: f"{DOC}def _f(): ...\n", "tests/x.py": f"{DOC}def f(): ...\n"}),
    (conduct.impure, {LOG: "print(open('x'))\nasync def f(): ...\n"}),
    (ownership.foreign_changes, {CORE: "self.a[0], b = 1, 2\nself.a.pop()\nb[0] = x.b.get(1)\n"}),
    (ownership.foreign_changes, {LOG: "self.log.end = 1\n"}),
    (ownership.strayed_changes, {LOG: OWNER + "def f(a):\n    a.end = 1\n"}),
    (ownership.strayed_changes, {LOG: OWNER, CORE: "self.end = 1\nlog.other = log.end\n"}),
    (conduct.unfinished, {"tests/core/test_x.py": "assert True\n"}),
    (conduct.swallowing, {LOG: "try:\n    x\nexcept (OSError, KeyError):\n    y\n"}),
    (conduct.swallowing, {LOG: "try:\n    x\nexcept BaseException:\n    y\n    raise\n"}),
    (conduct.sleeping, {"tests/core/test_x.py": "await asyncio.sleep(0)\n"}),
    (conduct.unexplained_type_ignores, {LOG: "x = 1  # type: ignore[x]  # no stubs\n"}),
    (layers.forbidden_imports, {LOG: "from strandline.core import events\nimport os\n"}),
    (layers.forbidden_imports, {OPERATOR: "from strandline.kube import api\n"}),
    (layers.forbidden_imports, {ANALYSIS: "from strandline import names\n"}),
    (layers.forbidden_imports, {SIMULATOR: "from strandline.core import leader\n"}),
    (layers.ambiguous_names, {OPERATOR: ""}),
    *((circles.import_circles, files) for files in circular_imports.HARMLESS),
    *((ownership.broken_ownership, files) for files in owned_things.HARMLESS),
    (words.forbidden_words, {LOG: "struct 10+ #0", "x.json": '"#7eb26d"', "x.sh": "${#a[@]}"}),
    (registers.metric_names_elsewhere, {LOG: "x = 'strandline_operator.plan'\n"}),
    (registers.metrics_without_exporter, {NAMES: "LAG = gauge()\n", METRICS: "names.LAG\n"}),
    (registers.repeated_error_numbers, {ERRORS: "class ErrorCode:\n    A = 1\n    B = 2\n"}),
    (registers.loose_requirements, {**LISTS, "pyproject.toml": PROJECT}),
    (registers.lost_extras, {"requirements/dev.txt": "pytest-cov==1\ncoverage[toml]==1\n"}),
    (
        registers.loosened_types,
        {"pyproject.toml": f"{STRICT}{OVERRIDE}module = ['a.*']\nignore_missing_imports = true\n"},
    ),
    (registers.wrong_verbs, {"Makefile": MAKEFILE, "README.md": "`make proto`"}),
    *((reach.unreached_modules, files) for files in reached_modules.HARMLESS),
    (reach.unread_settings, {CONFIG: SETTING, LOG: "config.part.a\n"}),
    (reach.unread_settings, {CONFIG: SETTING, LOG: "other, part = 1, c.part\npart.a\n"}),
    (reach.unread_settings, {CONFIG: SETTING, LOG: "def f(c: Concern): self._c = c; self._c.a\n"}),
    (reach.unread_settings, {CONFIG: SETTING, LOG: "Concern().in_seconds()\n"}),
    (promises.unkept_promises, promised("| a | `tests/core/test_x.py::test_a` | seen |")),
    (promises.unkept_promises, promised("| a | | missing |\n| b | `make proto` | partial |")),
    (promises.unkept_promises, promised("| a | `.ci/coverage` | seen |") | {".ci/coverage": ""}),
    (
        promises.unkept_promises,
        promised("| a | `make proto` | measured 2026-01-02 at 0123abc: 3 s in one run |"),
    ),
    (promises.undefined_numbers, defined(T8, "as in T8")),
    (promises.undefined_numbers, defined(T8) | {"tests/t08_a.txt": ""}),
    (promises.hollow_floor, {"tests/floor.toml": FLOOR}),
    (decisions.incomplete_decisions, decided()),
    (
        decisions.incomplete_decisions,
        decided(*(each.replace("accepted", "proposed") for each in (DECISION, INDEX_ROW))),
    ),
    (references.dangling_names, {"README.md": "`core/x.py`, `Machine.step`", CORE: CLASS}),
    (
        references.dangling_names,
        {CONFIG: SETTING, "docs/x.md": "`a.ms: 1` and [it](../x.md)", "x.md": ""},
    ),
    (
        references.dangling_names,
        {"README.md": "```modules\ncore | log  # z\n```\n", CORE: "", LOG: ""},
    ),
    (
        references.dangling_names,
        {
            PAGE: DECISION.replace("D.", "`core/y.py`").replace(
                "accepted", "accepted, not built yet"
            )
        },
    ),
    (
        references.dangling_names,
        {LOG: '"""Reads `x`.\n\nSource: Prometheus tsdb/xor.go, see ADR 0001.\n"""\n', **decided()},
    ),
    (
        references.dangling_names,
        {LISTING: "A = tree.BROKER / 'log/x.py', 'strandline.log.x'\n", LOG: ""},
    ),
    (references.dangling_names, {"docs/acceptance/x.md": "| `b.ms` | | missing |\n"}),
    (references.dangling_names, {"pyproject.toml": CONTRACT + IGNORES, CORE: "", LOG: ""}),
    (vocabulary.retired_words, {LOG: "Officer\n", "CHANGELOG.md": "Offi" + "ce\n"}),
    (vocabulary.repeated_classes, {LOG: "class _A: ...\n", CORE: "class _A: ...\n"}),
    (vocabulary.second_words, {LOG: "response = request.answered\n"}),
    (vocabulary.long_glossary, {"docs/glossary.md": "| a | b | c | d |\n" * 60}),
    (style.many_ways, {LOG: "_log = logging.getLogger(__name__)\nx = logging.getLogger('y')\n"}),
    (style.many_ways, {LOG: "from strandline.core.y import z\nfrom .y import a\n"}),
    (style.many_ways, {LOG: "_log.info('a', extra=fields(b=1))\n"}),
    (walks.broken_walks, walked(HOP, HOP.replace("1.", "2."))),
)


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"Makefile": MAKEFILE, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("planted", OFFENCES, ids=lambda p: f"{p.rule.__name__}-{p.sentence}")
def test_planted_offence_is_caught(tmp_path: Path, planted: Planted) -> None:
    offences = planted.rule(plant(tmp_path, planted.files))
    assert [offence for offence in offences if planted.sentence in offence], offences


@pytest.mark.parametrize(
    ("rule", "files"), HARMLESS, ids=lambda each: getattr(each, "__name__", "")
)
def test_harmless_tree_is_left_alone(tmp_path: Path, rule: Rule, files: dict[str, str]) -> None:
    assert rule(plant(tmp_path, files)) == []


def test_every_rule_is_tried_on_an_offence() -> None:
    assert {planted.rule for planted in OFFENCES} == set(RULES)


def test_changed_proto_makes_generated_code_stale(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    compiled = shutil.ignore_patterns("__pycache__")  # parallel tests may be writing there
    shutil.copytree(ROOT / "protos", tmp_path / "protos", ignore=compiled)
    assert registers.stale_generated_code(tmp_path) == []
    source = next((tmp_path / "protos").rglob("*.proto"))
    source.write_text(source.read_text() + "\nmessage Planted { int64 offset = 1; }\n")
    assert any("run make proto" in offence for offence in registers.stale_generated_code(tmp_path))
