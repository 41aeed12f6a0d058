"""A broker's entry that notes the disk calls of its event loop: `python -m` this module.

It runs `strandline.runtime.main` as it is. Python's audit events show what opens, lists, creates,
renames and removes; calls that raise none (fsync, pread, pwritev, stat, ...) are wrapped in `os`.
Only the thread of the event loop counts, and only while the loop runs: what it imports meanwhile,
and what it asks of /proc and /sys, is no disk. A kind of call is noted in the file that
CALLS_FILE_VARIABLE names when it comes first, and whenever it is larger than before, so that a
killed broker leaves what it did.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from strandline.runtime.main import main

CALLS_FILE_VARIABLE = "LOOP_DISK_CALLS"
OUTSIDE = "outside the data directory"
EVENTS = {
    "open": "open",
    "os.listdir": "list",
    "os.scandir": "list",
    "os.rename": "rename",
    "os.remove": "remove",
    "os.mkdir": "mkdir",
    "os.rmdir": "rmdir",
    "os.link": "link",
    "os.truncate": "truncate",
    "shutil.rmtree": "rmtree",
}
"""Audit events by the kind of call; `open` becomes `create` by its flags."""
ON_FILES = ("fsync", "fdatasync", "ftruncate", "pread", "preadv", "pwrite", "pwritev", "fstat")
ON_PATHS = ("stat", "lstat", "statvfs", "access")
CHANGING = os.O_CREAT | os.O_TRUNC
_fstat = os.fstat
"""As it is without the watch."""
_NUMBERED = re.compile(r"^[0-9]{20}")
_NO_DISK = re.compile(r"^/(proc|sys|dev)/|^(pipe|socket|anon_inode):")
_CODE = re.compile(r"\.(py|pyc|so|pth|egg-link)$|/__pycache__|/site-packages|/lib/python")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCall:
    """One kind of call: its name, the kind of file, its bytes, and the functions that led to it.

    Those of an ftruncate are the bytes that it frees.
    """

    call: str
    file: str
    size_bytes: int
    stack: tuple[str, ...]


class LoopWatch:
    """Notes the calls of the thread that it was made on."""

    def __init__(self, data_dir: str, out_fd: int) -> None:
        self._data_dir = data_dir
        self._out_fd = out_fd
        self._thread = threading.get_ident()
        self._largest: dict[tuple[str, str], int] = {}
        self._is_busy = False

    def on_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Note an audit event."""
        call = EVENTS.get(event)
        if call is None or not self._watches():
            return
        if call == "truncate" and isinstance(args[0], int):
            return  # that of an open file, which is noted with what it frees
        if call == "open" and isinstance(args[2], int) and args[2] & CHANGING:
            call = "create"
        self._note(call, args[0], 0)

    def on_call(self, call: str, args: tuple[Any, ...]) -> None:
        """Note a call that raises no event."""
        if self._watches():
            size_bytes = 0
            if call == "pread":
                size_bytes = args[1]
            elif call == "ftruncate":
                size_bytes = max(0, _fstat(args[0]).st_size - args[1])
            elif call == "pwritev":
                size_bytes = sum(len(memoryview(part).cast("B")) for part in args[1])
            self._note(call, args[0], size_bytes)

    def _watches(self) -> bool:
        return (
            threading.get_ident() == self._thread
            and not self._is_busy
            and asyncio._get_running_loop() is not None
        )

    def _note(self, call: str, target: object, size_bytes: int) -> None:
        self._is_busy = True
        try:
            path = _path_of(target)
            if _NO_DISK.search(path) or _CODE.search(path):
                return
            kind = (call, self._kind(path))
            if size_bytes > self._largest.get(kind, -1):
                self._largest[kind] = size_bytes
                noted = LoopCall(
                    call=call, file=kind[1], size_bytes=size_bytes, stack=_stack_of_ours()
                )
                os.write(self._out_fd, json.dumps(asdict(noted)).encode() + b"\n")
        finally:
            self._is_busy = False

    def _kind(self, path: str) -> str:
        """Return what kind of file a path is: its suffix, or its name below the data directory."""
        if path == self._data_dir:
            return "data directory"
        if not path.startswith(self._data_dir + "/"):
            return OUTSIDE
        name = path.rpartition("/")[2]
        if _NUMBERED.match(name):
            return name[20:]
        below = path[len(self._data_dir) + 1 :]
        return name if "/" in below or "." in name or "-" not in name else "folder of a log"


def _path_of(target: object) -> str:
    if isinstance(target, int):
        try:
            return os.readlink(f"/proc/self/fd/{target}")
        except OSError:
            return "closed"
    return os.fspath(target) if isinstance(target, str | os.PathLike) else repr(target)


def _stack_of_ours() -> tuple[str, ...]:
    """Return the functions of the broker that led here, innermost last."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("strandline."):
            found.append(f"{module.removeprefix('strandline.')}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return tuple(reversed(found[:5]))


def watch(data_dir: Path, calls_file: Path) -> None:
    """Note the disk calls of this thread from now on, for the life of the process."""
    calls_file.parent.mkdir(parents=True, exist_ok=True)
    out_fd = os.open(calls_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    noting = LoopWatch(str(data_dir), out_fd)
    sys.addaudithook(noting.on_event)
    for name in (*ON_FILES, *ON_PATHS):
        setattr(os, name, _noted(noting, name, getattr(os, name)))


def _noted(noting: LoopWatch, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any, **named: Any) -> Any:
        noting.on_call(name, args)
        return call(*args, **named)

    return noted


def read_calls(calls_file: Path) -> list[LoopCall]:
    """Return what a watched broker has noted so far, over all its runs."""
    calls = []
    for line in calls_file.read_text().splitlines():
        value = json.loads(line)
        calls.append(LoopCall(**{**value, "stack": tuple(value["stack"])}))
    return calls


if __name__ == "__main__":
    watch(Path(os.environ["DATA_DIR"]), Path(os.environ[CALLS_FILE_VARIABLE]))
    sys.exit(main())
