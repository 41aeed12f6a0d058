"""The tables of docs/configuration.md, made of the declarations in `config/`.

    python -m tests.config.settings_page

writes them; a test compares the two.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Final

from strandline.config.broker import CONCERNS, DEFAULT_PROFILE, TIMING_PROFILE
from strandline.config.declaration import INT64_MAX, Applies, Setting, settings_of
from strandline_operator.broker_settings import BROKER_KEYS
from tests.chart.cases import COMPLETE
from tests.support.commands import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "configuration.md"
FIELD_OF: Final = {key: f"`spec.config.{field}`" for field, key in BROKER_KEYS.items()}
TAKES_EFFECT: Final = {
    Applies.RESTART: "with a restart",
    Applies.RUNNING: "at once",
    Applies.TOPIC: "at once, with the topics",
}
BROKERS_HEAD: Final = (
    "Key",
    "Field",
    "Default",
    "Accepted",
    "A change takes effect",
    "In one line",
)
TOPICS_HEAD: Final = ("Field", "Without it", "A change takes effect")
TOPIC_DEFAULTS: Final = {
    "minInsyncReplicas": "one less than the replicas, at least 1",
    "segmentBytes": "log.segment.bytes",
    "maxMessageBytes": "message.max.bytes",
    "flushMessages": "log.flush.interval.messages",
    "retentionMs": "log.retention.ms",
    "retentionBytes": "log.retention.bytes",
    "segmentMs": "log.roll.ms",
    "fileDeleteDelayMs": "log.segment.delete.delay.ms",
}


def text(page: str) -> str:
    """Return the page with its tables made anew; the text around them stays."""
    for name, head, rows in (
        ("brokers", BROKERS_HEAD, _rows()),
        ("topics", TOPICS_HEAD, _topic_rows()),
    ):
        begin, end = f"<!-- table of {name} -->\n", f"<!-- end of {name} -->\n"
        before, rest = page.split(begin)
        _, after = rest.split(end)
        table = _line(*head) + _line(*["---"] * len(head)) + "".join(rows)
        page = before + begin + table + end + after
    return page


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _rows() -> Iterator[str]:
    yield _row(TIMING_PROFILE, "`spec.timing`, fixed", DEFAULT_PROFILE, "the timing profile")
    for concern in CONCERNS.values():
        meanings = _meanings(concern)
        for name, setting, default in settings_of(concern):
            yield _row(setting, FIELD_OF.get(setting.key, ""), default, meanings[name])


def _row(setting: Setting, field: str, default: object, meaning: str) -> str:
    accepted = setting.accepted().replace(str(INT64_MAX), "2^63 - 1")
    shown = "2^63 - 1" if default == INT64_MAX else str(default)
    effect = TAKES_EFFECT[setting.applies]
    return _line(setting.key, field, shown, accepted, effect, meaning)


def _topic_rows() -> Iterator[str]:
    for field in COMPLETE["ReplicatedTopic"]["spec"]["config"]:
        yield _line(f"`{field}`", TOPIC_DEFAULTS[field], TAKES_EFFECT[Applies.RUNNING])


def _meanings(concern: type) -> dict[str, str]:
    """Return the first sentence below each field of a concern."""
    (body,) = ast.parse(inspect.getsource(concern)).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(field.target, ast.Name)
            whole = " ".join(ast.literal_eval(below.value).split())
            found[field.target.id] = whole.split(". ")[0].split("; ")[0].rstrip(".")
    return found


if __name__ == "__main__":
    PAGE.write_text(text(PAGE.read_text()))
