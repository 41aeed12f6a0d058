"""Small trees whose modules import each other: some in a circle, some not."""

from __future__ import annotations

X = "broker_image/strandline/core/x.py"
Y = "broker_image/strandline/core/y.py"
Z = "broker_image/strandline/core/z.py"

OFFENCES: tuple[tuple[dict[str, str], str], ...] = (
    (
        {X: "from . import y\n", Y: "from .x import thing\n"},
        "strandline.core.x -> strandline.core.y -> strandline.core.x",
    ),
    (
        {X: "import strandline.core.y\n", Y: "if TYPE_CHECKING:\n    from .x import A\n"},
        "import circle",
    ),
    ({X: "def f():\n    from .y import A\n", Y: "from .x import f\n"}, "import circle"),
    (
        {X: "from .y import a\n", Y: "from .z import a\n", Z: "from .x import b\n"},
        "strandline.core.z",
    ),
    (
        {
            "tests/core/a.py": "from tests.core import b\n",
            "tests/core/b.py": "import tests.core.a\n",
        },
        "b",
    ),
)
HARMLESS: tuple[dict[str, str], ...] = (
    {X: "from .y import a\nfrom .z import b\n", Y: "from .z import b\n", Z: ""},
)
