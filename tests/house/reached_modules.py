"""Small trees of the broker's package: in some, an entry reaches every module, in some not."""

from __future__ import annotations

MAIN = "broker_image/strandline/runtime/main.py"
DUMP = "broker_image/strandline/dump_log/__main__.py"
NAMES = "broker_image/strandline/names.py"
CORE = "broker_image/strandline/core/x.py"
LOG = "broker_image/strandline/log/x.py"

OFFENCES: tuple[tuple[dict[str, str], str], ...] = (
    ({DUMP: ""}, "runtime.main: missing"),
    ({MAIN: ""}, "dump_log.__main__: missing"),
    ({MAIN: "", DUMP: "", NAMES: ""}, "names.py: not reached"),
    (
        {MAIN: "", DUMP: "from strandline.log import x\n", LOG: ""},
        "log/x.py: not reached from strandline.runtime.main",
    ),
    (
        {MAIN: "import strandline.log.y\n", DUMP: "", LOG: ""},
        "not reached",
    ),
    (
        {MAIN: "if TYPE_CHECKING:\n    import strandline.log.x\n", DUMP: "", LOG: ""},
        "not reached",
    ),
    (
        {MAIN: "def uncalled():\n    import strandline.log.x\n", DUMP: "", LOG: ""},
        "not reached",
    ),
)

HARMLESS: tuple[dict[str, str], ...] = (
    {MAIN: "from strandline.log import x\n", DUMP: "", LOG: ""},
    {MAIN: "", DUMP: "from . import x\n", DUMP.replace("__main__", "x"): ""},
    {
        MAIN: "import strandline.log.x\n",
        DUMP: "",
        LOG: "from ..core.x import y\n",
        CORE: "",
    },
    {
        MAIN: "try:\n    x\nexcept E:\n    if not y:\n        import strandline.log.x\n",
        DUMP: "",
        LOG: "",
    },
)
