"""A process that dies behind one of its disk operations: what was written is found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def killed_behind(operation: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Raise Killed behind the disk operation of that number, and behind each that would follow."""
    done: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if len(done) >= operation:
                raise Killed
            result = real(*arguments, **options)
            done.append(name)
            if len(done) == operation:
                raise Killed
            return result

        return call

    with monkeypatch.context() as patched:
        for name in ("fsync", "fdatasync", "ftruncate", "pwritev"):
            patched.setattr(os, name, counted(name, getattr(os, name)))
        for name in ("rename", "unlink"):
            patched.setattr(Path, name, counted(name, getattr(Path, name)))
        yield done
