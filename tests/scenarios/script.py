"""Reads a scenario: lines after "> " are commands, what they print stands below them.

Comments (# ...) and empty lines are kept where they are. A command is a word and key=value
pairs; each is a method of `ScenarioWorld` whose parameters convert the values. `quietly` before a
command prints nothing; `repeat N a ; b` performs commands in turn, N times, and prints only
what concerns the ISR.
"""

from __future__ import annotations

from .harness import ScenarioWorld

ABOUT_ISR = ("ProposeIsr", "IsrChanged")


def run(text: str) -> str:
    """Return the scenario with the output its commands print now."""
    world = ScenarioWorld()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> quietly "):
            lines.append(line)
            perform(world, line.removeprefix("> quietly "))
        elif line.startswith("> "):
            lines.append(line)
            lines += perform(world, line.removeprefix("> ")) or ["(no effects)"]
        elif line.startswith("#") or not line:
            lines.append(line)
    return "\n".join(lines) + "\n"


def perform(world: ScenarioWorld, command: str) -> list[str]:
    """Return what one command prints."""
    word, _, rest = command.partition(" ")
    if word == "repeat":
        times, _, commands = rest.partition(" ")
        printed = [
            line
            for _ in range(int(times))
            for each in commands.split(" ; ")
            for line in perform(world, each)
        ]
        return [line for line in printed if any(name in line for name in ABOUT_ISR)]
    values = dict(pair.split("=", 1) for pair in rest.split())
    output: list[str] = getattr(world, f"do_{word}")(**values)
    world.check()
    return output
