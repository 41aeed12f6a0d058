#!/usr/bin/env python3
"""Write a one-layer image archive from files, in the format of `docker save`.

mkimage.py OUT.tar NAME:TAG CONFIG_JSON ITEM...
ITEM is SOURCE:TARGET[:MODE] for a file, :TARGET[:MODE] for a folder, or
PATH->TARGET for a symbolic link. The same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"


class Layer:
    """A tar file in memory; folders above an entry are made before it."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w")  # noqa: SIM115 - closed by content
        self._folders: set[str] = set()

    def add(self, item: str) -> None:
        """Add what an ITEM of the command line names."""
        if "->" in item:
            path, target = item.split("->")
            self._add_entry(path, tarfile.SYMTYPE, 0o777, target=target)
            return
        source, path, *mode = item.split(":")
        bits = int(mode[0], 8) if mode else 0o755
        if source:
            self._add_entry(path, tarfile.REGTYPE, bits, data=Path(source).read_bytes())
        else:
            self._add_folder(path.strip("/"), bits)

    def content(self) -> bytes:
        """Return the finished tar file; nothing can be added after it."""
        self._tar.close()
        return self._bytes.getvalue()

    def _add_entry(
        self, path: str, kind: bytes, mode: int, *, data: bytes = b"", target: str = ""
    ) -> None:
        name = path.strip("/")
        self._add_parents(name)
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.linkname, info.size = kind, mode, target, len(data)
        self._tar.addfile(info, io.BytesIO(data))

    def _add_parents(self, name: str) -> None:
        parents = [str(parent) for parent in Path(name).parents][-2::-1]
        for parent in parents:
            if parent not in self._folders:
                self._add_folder(parent, 0o1777 if parent == "tmp" else 0o755)

    def _add_folder(self, name: str, mode: int) -> None:
        self._add_parents(name)
        self._folders.add(name)
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)


def write_archive(out: Path, name: str, config: str, layer: bytes) -> None:
    """Write the archive beside its place first, so that a broken one is never seen."""
    image = json.dumps(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "created": EPOCH,
            "config": json.loads(config),
            "rootfs": {
                "type": "layers",
                "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()],
            },
            "history": [{"created": EPOCH}],
        }
    ).encode()
    image_file = hashlib.sha256(image).hexdigest() + ".json"
    listed = [{"Config": image_file, "RepoTags": [name], "Layers": ["layer.tar"]}]
    manifest = json.dumps(listed).encode()
    part = out.with_name(out.name + ".part")
    with tarfile.open(part, "w") as tar:
        for path, data in ((image_file, image), ("layer.tar", layer), ("manifest.json", manifest)):
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    part.rename(out)


def main() -> None:
    """Make one image from the command line."""
    out, name, config, *items = sys.argv[1:]
    layer = Layer()
    for item in items:
        layer.add(item)
    write_archive(Path(out), name, config, layer.content())


if __name__ == "__main__":
    main()
