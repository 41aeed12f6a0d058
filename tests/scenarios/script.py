"""Runs a scenario: a line after "> " is a command, and the lines below it are its output.

Comments (# ...) and empty lines are kept where they are. `commands.py` lists the words.
"""

from __future__ import annotations

from strandline.controller.notices import LeaderElected
from strandline.model import ElectionKind

from .commands import SCRIPT_WORDS, command
from .language import ScenarioError, split
from .show import show
from .story import Story

ABOUT_ISR = ("ProposeIsr", "IsrChanged")


def run(text: str) -> str:
    """Return the scenario with the output that its commands print now."""
    story = Story()
    lines: list[str] = []
    quiet = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#") or not line:
            lines.append(line)
        if not line.startswith("> "):
            continue
        lines.append(line)
        words = line.removeprefix("> ")
        try:
            if words in {"quiet", "loud"}:
                quiet = _switched(words, quiet=quiet)
            elif quiet:
                perform(story, words)
            else:
                lines += perform(story, words) or ["(no effects)"]
        except ScenarioError as error:
            raise ScenarioError(f"line {number}: {error}") from error
    return "\n".join(lines) + "\n"


def perform(story: Story, words: str) -> list[str]:
    """Return what one command prints."""
    if words.startswith("repeat "):
        return _repeat(story, words)
    found = command(words.partition(" ")[0])
    values = found.values(split(words))
    already = len(story.world.happened)
    printed = found.run(story, **values)
    story.world.settle()
    happened = story.world.happened[already:]
    _judge(story, [effect for _, effect in happened])
    shown = [line for each in happened if (line := show(*each)) is not None]
    return [*shown, *(printed or [])]


def _judge(story: Story, effects: list[object]) -> None:
    """Check the invariants; an unclean election may lose acknowledged records."""
    invariants = story.world.replication.invariants
    unclean = ElectionKind.UNCLEAN
    if any(isinstance(each, LeaderElected) and each.kind is unclean for each in effects):
        invariants.acknowledged.clear()
    invariants.check(story.world.replication.brokers, story.world.store.partitions.values())


def _repeat(story: Story, words: str) -> list[str]:
    _, times, *commands = words.split(" ", 2)
    if not times.isdecimal() or not commands:
        raise ScenarioError(f"{words!r} is not as: {SCRIPT_WORDS['repeat'][0]}")
    printed = [
        line
        for _ in range(int(times))
        for each in commands[0].split(" ; ")
        for line in perform(story, each)
    ]
    return [line for line in printed if any(name in line for name in ABOUT_ISR)]


def _switched(word: str, *, quiet: bool) -> bool:
    if quiet == (word == "quiet"):
        raise ScenarioError(f"it is {word} already")
    return word == "quiet"
