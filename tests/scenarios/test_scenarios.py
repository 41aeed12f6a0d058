"""Each text file beside this one is a scenario; `docs/scenarios.md` explains how to read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .commands import COMMANDS, HEADING, SCRIPT_WORDS, command, words
from .language import ScenarioError, split
from .script import run

HERE = Path(__file__).parent
SCENARIOS = sorted(HERE.glob("*.txt"))
DOCUMENT = HERE.parents[1] / "docs" / "scenarios.md"


def is_updating(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-scenarios", default=False))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_prints_its_expected_output(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text()
    printed = run(expected)
    if is_updating(request):
        path.write_text(printed)
    else:
        assert printed == expected


def test_every_scenario_begins_with_its_story() -> None:
    assert SCENARIOS
    assert [path.name for path in SCENARIOS if not path.read_text().startswith("# ")] == []


def test_document_lists_every_word(request: pytest.FixtureRequest) -> None:
    before, heading, listed = DOCUMENT.read_text().partition(f"{HEADING}\n")
    if is_updating(request):
        DOCUMENT.write_text(before + words())
    else:
        assert heading + listed == words()


@pytest.mark.parametrize("word", COMMANDS)
def test_example_fits_its_command_and_a_scenario_uses_the_word(word: str) -> None:
    found = COMMANDS[word]
    assert found.meaning
    texts = split(found.example)
    assert command(found.example.split()[0]) is found
    assert set(found.values(texts)) == set(texts)
    used = (f"> {word} ", f"> {word}\n", f"; {word} ")
    assert any(each in path.read_text() for path in SCENARIOS for each in used)


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("fetsch broker=1", "line 2: no command 'fetsch'; commands are: accept, advance, "),
        ("quietly state", "line 2: no command 'quietly'; commands are: "),
        ("fetch by=1", "fetch takes no 'by'; its arguments are: broker"),
        ("state broker=1", "state takes no 'broker'; its arguments are: none"),
        ("cluster brokers=1 patience_ms=3", "cluster takes no 'patience_ms'; its arguments are: "),
        ("elect leader=0", "elect needs isr: elect leader=0 isr=0,1 new=yes"),
        ("advance ms=soon", "advance: invalid literal for int"),
        ("elect leader=0 isr=0 new=maybe", "elect: 'maybe' is neither yes nor no"),
        ("accept broker=0 response=slow", "'slow' is none of: delivered, late, lost"),
        ("kill 0", "'0' is not a key=value of its own"),
        ("kill broker=0 broker=1", "'broker=1' is not a key=value of its own"),
        ("kill broker=9", "no broker 9; brokers are: 0, 1"),
        ("cluster brokers=3", "a story has one cluster"),
        ("fetch broker=0", "broker 0 sent no fetch"),
        ("reply broker=0", "broker 0 waits for no response"),
        ("accept broker=0", "broker 0 has proposed nothing"),
        ("announce state=saved", "no state was saved"),
        ("thaw controller=0", "no controller 0; controllers are: none"),
        ("hold message=Fetch outcome=lost", "no message 'Fetch'; messages are: ReadLease, "),
        ("release", "no message is delayed"),
        ("loud", "it is loud already"),
        ("repeat fetch broker=1", "is not as: repeat 3 fetch broker=1 ; advance ms=100"),
        ("repeat 2 fetch by=1", "fetch takes no 'by'; its arguments are: broker"),
    ],
)
def test_a_malformed_line_fails_with_the_choices(line: str, complaint: str) -> None:
    with pytest.raises(ScenarioError, match="line 2: ") as caught:
        run(f"> cluster brokers=2\n> {line}\n")
    assert complaint in str(caught.value)


def test_script_may_not_decide_where_controllers_decide() -> None:
    text = (
        "> cluster brokers=2 controllers=0\n> advance ms=10\n> connect brokers=0,1 controller=0\n"
    )
    with pytest.raises(ScenarioError, match="line 4: controllers decide in this story"):
        run(text + "> elect leader=1 isr=0,1\n")


def test_quiet_commands_print_nothing_and_happen() -> None:
    text = "# A story.\n> quiet\n> cluster brokers=1\n> advance ms=5\n> loud\n> advance ms=1\n"
    assert run(text) == text + "(no effects)\n"
    assert "> logs\n0: (nothing)\n" in run("> quiet\n> cluster brokers=1\n> loud\n> logs\n")


def test_every_word_is_listed_once() -> None:
    assert not set(COMMANDS) & set(SCRIPT_WORDS)
