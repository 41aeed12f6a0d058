"""See every disk call that a thread makes: which call, and how many bytes or which path.

Python's audit events show what opens, creates, renames and removes. Calls on open files (pread,
pwritev, ftruncate, fsync) have no audit event; they go through `os`, where they are wrapped.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

NAMESPACE_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.rmtree")
FILE_CALLS = ("fsync", "fdatasync", "ftruncate", "pread", "preadv", "pwrite", "pwritev")


@dataclass(frozen=True, slots=True)
class DiskCall:
    """One call; amount is the bytes of a pread and the new size of an ftruncate, else 0."""

    name: str
    target: str
    amount: int = 0


class _Watch:
    """The calls of one thread below one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.thread = threading.get_ident()
        self.calls: list[DiskCall] = []

    def on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self.thread:
            return
        if event == "open" and isinstance(args[0], str) and args[0].startswith(self.folder):
            creates = bool(args[2] & (os.O_CREAT | os.O_TRUNC))
            self.calls.append(DiskCall("create" if creates else "open", args[0]))
        elif event in NAMESPACE_EVENTS and str(args[0]).startswith(self.folder):
            self.calls.append(DiskCall(event.rpartition(".")[2], str(args[0])))

    def on_file_call(self, name: str, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self.thread:
            return
        target = os.readlink(f"/proc/self/fd/{args[0]}")
        if target.startswith(self.folder):
            amount = args[1] if name in ("pread", "ftruncate") else 0
            self.calls.append(DiskCall(name, target, amount))


_watches: list[_Watch] = []


@cache
def _hook_this_process() -> None:
    """Add the audit hook, which stays for the life of the process and looks only while watched."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        for watch in _watches:
            watch.on_event(event, args)

    sys.addaudithook(hook)


@contextmanager
def disk_calls(folder: os.PathLike[str]) -> Iterator[list[DiskCall]]:
    """Yield the list of disk calls that this thread makes below a folder until the block ends."""
    _hook_this_process()
    watch = _Watch(os.fspath(folder))
    with pytest.MonkeyPatch.context() as patch:
        for name in FILE_CALLS:
            patch.setattr(os, name, _noted(watch, name, getattr(os, name)))
        _watches.append(watch)
        try:
            yield watch.calls
        finally:
            _watches.remove(watch)


def _noted(watch: _Watch, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any) -> Any:
        watch.on_file_call(name, args)
        return call(*args)

    return noted
