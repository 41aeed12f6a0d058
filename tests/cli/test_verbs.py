"""The program `strandline`: its overview, every verb's help and examples, and wrong words."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_checker.history import SendOutcome, Sent, outcome_line, sent_line
from strandline_cli.__main__ import main
from strandline_cli.command_line import PLUGIN, PROGRAM, Verb
from strandline_cli.demo import Wishes
from strandline_cli.images import ImageSource
from strandline_cli.load_generator import LoadPlan
from strandline_cli.verbs import GROUPS
from tests.dump_log.test_dump_log import batch, write_replica
from tests.house.rules import tree
from tests.support.commands import programs

ROOT = Path(__file__).resolve().parents[2]
VERBS = {verb.name: verb for verbs in GROUPS.values() for verb in verbs}
EXAMPLES = [(verb, command) for verb in VERBS.values() for command, _ in verb.examples]
NEED_A_CLUSTER = {"demo", "load", "bench", "analysis", "analysis-score", "recover", "status"}
NEED_A_CLUSTER |= {"undelete"}
NEED_A_CLUSTER |= {"watch", "describe", "report", "elect", "reassign", "drain", "rebalance"}
RUNNABLE = [command for verb, command in EXAMPLES if verb.name not in NEED_A_CLUSTER]


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Provide a shell with `strandline` in PATH, in a folder with the files of the examples."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "strandline"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m strandline_cli "$@"\n')
    program.chmod(0o755)
    (tmp_path / "data").mkdir()
    write_replica(tmp_path / "data", {0: batch(0, [b"a"])})
    sent = Sent(producer="p", partition=0, sequence=0, value="a", sent_ms=1.0)
    acked = outcome_line("a", SendOutcome.ACKED, ended_ms=2.0, offset=0)
    (tmp_path / "history.jsonl").write_text(f"{sent_line(sent)}\n{acked}\n")

    def run(command: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    for broker in range(3):
        scan = tmp_path / f"broker-{broker}.jsonl"
        with scan.open("w") as file, contextlib.redirect_stdout(file):
            words = f"dump-log --dir {tmp_path}/data --topic orders --lines --broker {broker}"
            assert main(words.split()) == 0
    return run


def wrong(words: list[str]) -> int:
    """Return the exit code of `strandline` with these words, even if its parser exits."""
    try:
        return main(words)
    except SystemExit as end:
        return int(str(end.code))


# --- help ---------------------------------------------------------------------------------


def test_the_overview_has_every_verb_with_its_line_and_no_colour_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for group, verbs in GROUPS.items():
        assert f"\n{group}\n" in printed
        for verb in verbs:
            assert f"\n  {verb.name:<10} {verb.summary}\n" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_help_of_a_verb_says_what_it_does_and_shows_an_example(
    verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([verb.name, "--help"])
    printed = capsys.readouterr().out
    assert verb.summary[1:] in printed
    assert verb.text in printed
    assert verb.examples
    for command, does in verb.examples:
        assert f"  {command}\n      {does}" in printed


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verb_is_one_file_of_its_name_and_one_line(verb: Verb) -> None:
    module = importlib.import_module(f"strandline_cli.verbs.{verb.name.replace('-', '_')}")
    assert module.VERB is verb
    assert "\n" not in verb.summary
    assert not verb.summary.endswith(".")


@pytest.mark.processes
def test_as_a_plugin_of_kubectl_it_is_called_so_in_every_text(
    shell: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    program = tmp_path / "bin" / PLUGIN
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "from strandline_cli.__main__ import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    kubectl = programs() / "kubectl"
    done = shell(f"{kubectl} strandline watch --help")
    assert done.stdout.startswith("usage: kubectl strandline watch "), done.stderr
    assert "  kubectl strandline watch --once\n" in done.stdout
    assert "usage: kubectl strandline VERB" in shell(f"{kubectl} strandline --help").stdout
    done = shell(f"{kubectl} strandline watch --for no")
    assert done.stderr.startswith("kubectl strandline watch: argument --for: must be a number")
    assert done.returncode == 2


# --- examples -----------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "command"), EXAMPLES, ids=[command for _, command in EXAMPLES])
def test_an_example_parses(verb: Verb, command: str) -> None:
    words = shlex.split(command.partition(" > ")[0])
    assert words[:2] == ["strandline", verb.name]
    verb.parser().parse_args(words[2:])


@pytest.mark.parametrize("command", RUNNABLE)
def test_an_example_that_needs_no_cluster_runs(
    shell: Callable[[str], subprocess.CompletedProcess[str]], command: str
) -> None:
    done = shell(command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "tool", "given"),
    [
        ("demo", "strandline_cli.demo.run", (ROOT, Wishes(), ImageSource())),
        (
            "demo --cluster current --load 'a b'",
            "strandline_cli.demo.run",
            (ROOT, Wishes(cluster="current"), ImageSource(load="a b")),
        ),
        (
            "demo --cluster current --images r/t --no-analysis --yes",
            "strandline_cli.demo.run",
            (
                ROOT,
                Wishes(cluster="current", analysis=False, agreed=True),
                ImageSource(repository="r/t"),
            ),
        ),
        ("demo --down", "strandline_cli.demo.take_down", (ROOT,)),
        ("demo --push --images r/t", "strandline_cli.demo.push", (ROOT, "r/t")),
        ("bench --runs 2", "bench.measure.measure", (ROOT, 2)),
        (
            "load --bootstrap b:1 --topic t --partitions 6 --rate 20 --consume --history h",
            "strandline_cli.load_generator.generate",
            (
                LoadPlan(
                    bootstrap="b:1",
                    topic="t",
                    partitions=6,
                    rate=20.0,
                    seconds=60.0,
                    history=Path("h"),
                    consume=True,
                    report_seconds=1.0,
                    delivery_timeout_ms=60_000,
                ),
            ),
        ),
    ],
)
def test_a_verb_on_a_cluster_gets_the_arguments_of_its_words(
    words: str, tool: str, given: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []

    def note(*arguments: object) -> int:
        calls.append(arguments)
        return 7

    for name in ("CLUSTER", "IMAGES", "LOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tool, note)
    assert main(shlex.split(words)) == 7
    assert calls == [given]


def test_a_record_that_is_missing_on_one_replica_fails_the_check(
    shell: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "broker-2.jsonl").write_text('["record", 2, 0, 0, 3, "b", 7]\n["rec')
    files = "history.jsonl broker-0.jsonl broker-1.jsonl broker-2.jsonl"
    done = shell(f"strandline check {files} --replicas 0,1,2")
    assert done.returncode == 1
    assert "lost 1" in done.stdout
    assert "FAILED" in done.stdout


def test_a_check_without_a_scan_or_without_a_record_shows_nothing(
    shell: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    assert "unscanned 1" in shell("strandline check history.jsonl --replicas 0").stdout
    done = shell("strandline check broker-0.jsonl --replicas 0")
    assert done.returncode == 1
    assert "no record was acknowledged" in done.stdout


# --- wrong words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["demoo"], "there is no verb 'demoo'"),
        (["--verbose"], "there is no verb '--verbose'"),
        (["sim", "--seeds", "many"], "--seeds: invalid int value: 'many'"),
        (["sim", "--seeds", "0"], "--seeds must be at least 1"),
        (["sim", "fast"], "unrecognized arguments: fast"),
        (["bench", "--runs", "0"], "--runs: must be a whole number of at least 1, not '0'"),
        (["bench", "--runs", "x"], "--runs: must be a whole number of at least 1, not 'x'"),
        (["demo", "--cluster", "minikube"], "--cluster: invalid choice: 'minikube'"),
        (["load", "--topic", "t"], "required: --bootstrap, --partitions, --history"),
        (["check", "f", "--replicas", "0,x"], "must be ids of brokers such as 0,1,2"),
        (["dump-log", "--lines"], "--lines needs --broker and --topic"),
        (["analysis", "--prometheus", "u", "--out", "d", "--end", "soon"], "Invalid isoformat"),
        (["analysis", "--prometheus", "u", "--out", "d", "--end=9", "--start=9"], "is empty"),
    ],
)
def test_wrong_words_are_refused_with_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wrong(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence in printed.err
    assert "--help)" in printed.err


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf", "fast"])
def test_a_rate_is_a_number_greater_than_zero(
    rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wrong(["load", "--rate", rate]) == 2
    assert f"must be a number greater than 0, not '{rate}'" in capsys.readouterr().err


def test_without_a_word_the_overview_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "strandline VERB --help" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["demo", "bench"])
def test_a_verb_that_needs_the_repository_says_so_elsewhere(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert wrong([verb]) == 2
    assert "run this from the repository's root" in capsys.readouterr().err


def test_the_overview_needs_no_library() -> None:
    libraries = "{each.split('.')[0] for each in sys.modules} - set(sys.stdlib_module_names)"
    program = f"import sys, strandline_cli.verbs; print(*sorted({libraries}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert {each for each in done.stdout.split() if not each.startswith("_")} == {
        "strandline",
        "strandline_cli",
    }


def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for name in ("load_generator", "load_consumer"):
        monkeypatch.delitem(sys.modules, f"strandline_cli.{name}", raising=False)
    words = "load --bootstrap b:1 --topic t --partitions 1 --history /nonexistent/h"
    assert main(words.split()) == 2
    assert capsys.readouterr().err == "strandline load: needs confluent_kafka, which is not here\n"


def test_a_verb_that_fails_is_reported_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "/nonexistent/history", "--replicas", "0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("strandline check: ")


# --- images -------------------------------------------------------------------------------


def test_the_installed_program_is_this_entry() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"].keys() == {PROGRAM, PLUGIN}
    for entry in project["scripts"].values():
        module, _, function = entry.partition(":")
        assert getattr(importlib.import_module(module), function) is main


def test_only_the_clients_image_has_tools_simulator_and_judge() -> None:
    tools = {"strandline_cli", "strandline_checker", "strandline_simulation"}
    held = {
        "broker_image/Dockerfile": {"strandline", "strandline_api"},
        "operator/Dockerfile": {"strandline", "strandline_api", "strandline_operator"},
        "spark/Dockerfile": {"strandline", "strandline_analysis"},
        "hack/client/Dockerfile": {"strandline", *tools},
    }
    programs = [f"/opt/strandline/bin/{name}" for name in ("strandline", "kubectl-strandline")]
    recipes = [path for path in tree.files(ROOT) if path.name == "Dockerfile"]
    assert {str(path): packages_that_it_copies(ROOT / path) for path in recipes} == held
    for recipe in recipes:
        lines = (ROOT / recipe).read_text().splitlines()
        drops_program = any(line.endswith(f" {' '.join(programs)}") for line in lines)
        assert drops_program != (held[str(recipe)] >= tools), recipe


def packages_that_it_copies(recipe: Path) -> set[str]:
    """Return the packages of ours that a recipe copies whole or in part."""
    commands = recipe.read_text().replace("\\\n", " ").splitlines()
    copies = [line.split()[1:-1] for line in commands if re.match(r"COPY (?!--from)", line)]
    sources = [ROOT / source for copy in copies for source in copy]
    files = {file for source in sources for file in (source, *source.rglob("*"))}
    return {file.relative_to(ROOT).parts[1] for file in files if file.suffix == ".py"}
