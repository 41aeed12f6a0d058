"""What all charts share: the scale of time, its axis, lanes with names, colours of brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .markup import Element, element
from .words import Range, clock

WIDTH: Final = 960.0
NAMES_WIDTH: Final = 150.0
RIGHT: Final = 12.0
AXIS_HEIGHT: Final = 22.0
NAME_CHARACTERS_MAX: Final = 22
"""A longer name is cut in a chart; its tooltip holds all of it."""
TICKS_MAX: Final = 8
STEPS_MS: Final = tuple(
    scale * step
    for scale, steps in (
        (1000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 3, 6, 12)),
        (86_400_000, (1, 2, 7, 14, 28)),
    )
    for step in steps
)
BROKER_COLOURS: Final = 8
"""Classes b0 to b7 of the style sheet; the broker's number stands beside each colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """Where a time lies in a chart."""

    start_ms: int
    end_ms: int

    def x(self, time_ms: float) -> float:
        """Return the place of a time, held within the range."""
        within = min(max(time_ms, self.start_ms), self.end_ms)
        share = (within - self.start_ms) / max(self.end_ms - self.start_ms, 1)
        return NAMES_WIDTH + share * (WIDTH - NAMES_WIDTH - RIGHT)

    def ticks(self) -> list[int]:
        """Return round times, TICKS_MAX at most."""
        length = self.end_ms - self.start_ms
        step = next((each for each in STEPS_MS if length / each <= TICKS_MAX), STEPS_MS[-1])
        step *= max(1, -(-length // (step * TICKS_MAX)))
        return list(range(-(-self.start_ms // step) * step, self.end_ms, step))


def scale_of(window: Range) -> TimeScale:
    """Return the scale of the whole range."""
    return TimeScale(start_ms=window.start_ms, end_ms=window.start_ms + window.length_ms)


def drawing(label: str, height: float, *children: Element | None) -> Element:
    """Return a drawing with its description for those who do not see it."""
    return element(
        "svg",
        element("title", label),
        *children,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        class_="chart",
    )


def time_axis(scale: TimeScale, *, top: float, bottom: float) -> Element:
    """Return the lines and times of the axis; the times stand below."""
    whole = scale.end_ms - scale.start_ms >= 120_000
    marks = [
        element(
            "g",
            element("line", x1=scale.x(at), x2=scale.x(at), y1=top, y2=bottom, class_="grid"),
            element(
                "text",
                clock(at)[: 5 if at % 60_000 == 0 and whole else 8],
                x=scale.x(at),
                y=bottom + 14,
                class_="tick",
            ),
        )
        for at in scale.ticks()
    ]
    return element("g", *marks)


def name_of_lane(name: str, *, y: float) -> Element:
    """Return the name at the left of a lane, cut if it is long."""
    cut = len(name) > NAME_CHARACTERS_MAX
    shown = "\u2026" + name[-NAME_CHARACTERS_MAX + 1 :] if cut else name
    return element("text", element("title", name), shown, x=NAMES_WIDTH - 8, y=y, class_="lane")


def bar(
    scale: TimeScale,
    start_ms: float,
    end_ms: float,
    *,
    y: float,
    height: float,
    look: str,
    tip: str,
) -> Element:
    """Return a bar over a time, never too thin to be seen."""
    left, right = scale.x(start_ms), scale.x(end_ms)
    width = max(right - left, 1.0)
    tooltip = element("title", tip)
    return element(
        "rect",
        tooltip,
        x=min(left, WIDTH - RIGHT - 1),
        y=y,
        width=width,
        height=height,
        class_=look,
    )


def colour_of(broker: int | None) -> str:
    """Return the class of a broker's colour."""
    return "none" if broker is None else f"b{broker % BROKER_COLOURS}"
