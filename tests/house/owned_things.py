"""Small trees whose docstrings claim owners: some claims are wrong, some are right."""

from __future__ import annotations

CORE = "broker_image/strandline/core/x.py"
LOG = "broker_image/strandline/log/x.py"
OPERATOR = "operator/strandline_operator/x.py"
OWNED = """class Owned:
    '''{}'''

    def __init__(self):
        self.end = 0

    def move(self):
        self.end += 1
"""
FROZEN = "@dataclass(frozen=True)\nclass {}:\n    a: int\n"
PHASES = FROZEN.format("One") + FROZEN.format("Two") + "Phase = One | Two\n"
OWNER = "broker_image/strandline/core/owner.py"
IMPORTED = "from strandline.core.x import Owned\n"


def owned(claim: str, elsewhere: str, at: str = LOG) -> dict[str, str]:
    return {CORE: OWNED.format(claim), OWNER: "class Owner: ...\n", at: elsewhere}


OFFENCES: tuple[tuple[dict[str, str], str], ...] = (
    (owned("Changed by fetches alone.", ""), "no owner"),
    (owned("Changed by `Nil` only.", ""), "no owner Nil"),
    (
        owned("Changed by its own methods only.", "x.owned.end = 1\n"),
        "log/x.py:1: changes Owned.end",
    ),
    (
        owned("Changed by `Owner` alone.", "x.move()\n"),
        "changes Owned.move",
    ),
    (
        owned("`owner` alone changes it.", IMPORTED + "class C:\n    end: int\nx.end += 1\n"),
        "changes Owned.end",
    ),
    (owned("Used by `Owner` alone.", IMPORTED), "imports"),
    (
        {CORE: '"""Called by `log` alone."""\n', OPERATOR: "import strandline.core.x\n", LOG: ""},
        "operator/strandline_operator/x.py: imports strandline.core.x",
    ),
    (
        {
            CORE: PHASES + '"""Made by `Owner` alone."""\n',
            OWNER: "class Owner: ...\n",
            LOG: "from strandline.core.x import Two\nphase = Two(a=1)\n",
        },
        "log/x.py:2: makes Two",
    ),
)

HARMLESS: tuple[dict[str, str], ...] = (
    owned("Changed by its own methods only.", "x.move()\n"),
    owned("`Owner` alone changes it.", "class Owner: x.end = 1\n", at=OWNER),
    owned("`Owned` alone changes its end.", "x.move()\n"),
    owned("Changed by `move_it` alone.", "def move_it(x): x.end = 1\n"),
    owned("Changed by `log` alone.", "x.end = x.move()\n"),
    owned("Changed by `Owner` alone.", "class C:\n    end: int\nx.end = 1\n"),
    owned("Used by `Owner` and `log.x` alone.", IMPORTED),
)
