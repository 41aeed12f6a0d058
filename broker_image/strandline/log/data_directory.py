"""The data directory of a broker: its lock, and the small files beside the logs.

`meta.json` holds the id of the directory and the epochs that the last start meant to register;
the clean-shutdown marker says under which epoch all logs were fsynced; the flushed mark says under
which epoch every record was fsynced before it was counted; the failed mark says under
which epoch a read, write or fsync failed; the state file keeps the epochs that the broker accepted,
so that after a restart it still refuses older ones. Every function here blocks on the disk.
Invariant: an initialised directory has meta and state file; if one is missing or malformed,
`CheckpointMalformed` is raised.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.errors import (
    CheckpointMalformed,
    LogDirectoryFailed,
    LogDirectoryFull,
    StorageError,
)
from strandline.model import (
    BrokerEpoch,
)

from .files import is_full, replace_file, sync_folder
from .partition_folder import parse_folder_name
from .reserve import give_up_reserve, keep_reserve
from .state_file import BrokerState, StateChange, StateFile, state_from

LOCK_FILE: Final = ".lock"
META_FILE: Final = "meta.json"
MARKER_FILE: Final = ".clean-shutdown.json"
FLUSHED_FILE: Final = ".flushed.json"
FAILED_FILE: Final = ".storage_failed"
STATE_FILE: Final = "broker-state"
PROBE_FILE: Final = ".probe"
PROBE_BYTES: Final = 4096
SMALL_FILE_BYTES_MAX: Final = 4096
BOOT_ID_LENGTH_MAX: Final = 64
STATE_FILE_BYTES_MAX: Final = 256 << 20

_REMEDIES: Final = {
    errno.EROFS: "is read-only: mount the volume writable",
    errno.EACCES: "may not be written by this user: correct its owner, or the pod's fsGroup",
    errno.EPERM: "may not be written by this user: correct its owner, or the pod's fsGroup",
    errno.ENOSPC: "is full: free space or let the volume grow",
    errno.EDQUOT: "is over its quota: free space or raise the quota",
    errno.ENOTDIR: "is not a directory: set log.dir to one",
    errno.EIO: "has a failing disk: move the broker to another volume",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Content of meta.json: the epochs of the last start, registered or not."""

    log_dir_id: str
    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch = BrokerEpoch(0)
    mount: str = ""


class DataDirectory:
    """An exclusively locked data directory; the lock ends with the process or with `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._broker_epoch = BrokerEpoch(0)
        self._state_file = StateFile(path / STATE_FILE)
        self.has_flushed_mark = False
        """Whether this process wrote the flushed mark, and has not removed it."""

    @classmethod
    def open(cls, path: Path) -> DataDirectory:
        """Lock a directory, creating it if need be; LogDirectoryFailed names a remedy.

        Raises:  LogDirectoryFull if there is no space, not even that of the reserve
        """
        with _failures_of(path):
            path.mkdir(parents=True, exist_ok=True)
            lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with _failures_of(path):
                _probe(path)
        except BlockingIOError as error:
            os.close(lock)
            raise LogDirectoryFailed(
                f"data directory {path} is locked by another process: stop that broker, or "
                "give this one a directory of its own"
            ) from error
        except LogDirectoryFailed:
            os.close(lock)
            raise
        return cls(path, lock)

    def close(self) -> None:
        """Give up the lock."""
        os.close(self._lock)

    def read_meta(self) -> MetaProperties | None:
        """Return the content of meta.json.

        Returns: None for a directory that was never initialised and holds no log
        Raises:  CheckpointMalformed, also if logs exist without it
        """
        content = self._read(META_FILE, SMALL_FILE_BYTES_MAX)
        if content is not None:
            meta = _meta_from(content, self.path / META_FILE)
            self._broker_epoch = meta.broker_epoch
            return meta
        if self._holds_logs():
            raise CheckpointMalformed(
                f"{self.path / META_FILE} is missing although logs exist: restore it from a "
                "backup, or empty the directory to let this broker copy everything again"
            )
        return None

    def write_meta(self, meta: MetaProperties) -> None:
        """Replace meta.json, fsynced; in a new directory, write the empty state file first."""
        if not (self.path / META_FILE).exists():
            self.write_state(BrokerState())
        content = {
            "logDirId": meta.log_dir_id,
            "brokerEpoch": meta.broker_epoch,
            "cleanSinceEpoch": meta.clean_since_epoch,
            "mount": meta.mount,
        }
        self._write(META_FILE, json.dumps(content).encode())
        self._broker_epoch = meta.broker_epoch

    def read_clean_shutdown_marker(self) -> BrokerEpoch | None:
        """Return the epoch of the marker, None without one.

        A malformed marker counts as none: the start is then unclean, which is always safe.
        """
        content = self._read(MARKER_FILE, SMALL_FILE_BYTES_MAX)
        return None if content is None else _epoch_from(content)

    def remove_clean_shutdown_marker(self) -> None:
        """Delete the marker durably: what this registered process writes is not in it."""
        self._remove(MARKER_FILE)

    def write_clean_shutdown_marker(self, broker_epoch: BrokerEpoch) -> None:
        """Tell the next start that nothing was lost; call it only after all logs are fsynced."""
        self._write(MARKER_FILE, json.dumps({"brokerEpoch": broker_epoch}).encode())

    def read_flushed_mark(self) -> BrokerEpoch | None:
        """Return the epoch whose process fsynced before it counted; None also if malformed."""
        content = self._read(FLUSHED_FILE, SMALL_FILE_BYTES_MAX)
        return None if content is None else _epoch_from(content)

    def write_flushed_mark(self, broker_epoch: BrokerEpoch) -> None:
        """Tell the next start that nothing is lost by a power cut; all logs are fsynced now."""
        self._write(FLUSHED_FILE, json.dumps({"brokerEpoch": broker_epoch}).encode())
        self.has_flushed_mark = True

    def remove_flushed_mark(self) -> None:
        """Delete the mark durably, before the first record that is counted without an fsync."""
        self._remove(FLUSHED_FILE)
        self.has_flushed_mark = False

    def mark_failed(self) -> bool:
        """Tell the next start that a read, write or fsync failed; False if that fails, too."""
        with suppress(StorageError):
            self._write(FAILED_FILE, json.dumps({"brokerEpoch": self._broker_epoch}).encode())
            return True
        return False

    def read_failed_mark(self) -> BrokerEpoch | None:
        """Return the epoch of the process that saw this directory fail, None without a mark.

        A malformed mark stands for the last process.
        """
        content = self._read(FAILED_FILE, SMALL_FILE_BYTES_MAX)
        if content is None:
            return None
        meta = self.read_meta()
        return _epoch_from(content) or (BrokerEpoch(0) if meta is None else meta.broker_epoch)

    def remove_failed_mark(self) -> None:
        """Forget the failure: the start that took account of it is registered."""
        self._remove(FAILED_FILE)

    def read_state(self) -> BrokerState:
        """Return the last accepted state; CheckpointMalformed if a used directory lacks it."""
        content = self._read(STATE_FILE, STATE_FILE_BYTES_MAX)
        if content is not None:
            return state_from(content, self.path / STATE_FILE)
        if self._read(META_FILE, SMALL_FILE_BYTES_MAX) is None and not self._holds_logs():
            return BrokerState()
        raise CheckpointMalformed(
            f"{self.path / STATE_FILE} is missing although the directory is in use: restore it "
            "from a backup, or empty the directory to let this broker copy everything again"
        )

    def write_state(self, state: BrokerState) -> None:
        """Replace the state file: written beside it, fsynced, renamed, directory fsynced."""
        with _failures_of(self.path):
            self._state_file.write(state)

    def change_state(self, change: StateChange) -> None:
        """Make a change of the state file durable, which `read_state` did not change."""
        with _failures_of(self.path):
            self._state_file.append(change)

    @property
    def has_state_journal(self) -> bool:
        """Whether versions before the journal could not read the state file as it is now."""
        return self._state_file.has_journal

    def _holds_logs(self) -> bool:
        with _failures_of(self.path), os.scandir(self.path) as entries:
            return any(
                parse_folder_name(entry.name) is not None and entry.is_dir(follow_symlinks=False)
                for entry in entries
            )

    def _read(self, name: str, bytes_max: int) -> bytes | None:
        with _failures_of(self.path):
            try:
                with (self.path / name).open("rb") as file:
                    content = file.read(bytes_max + 1)
            except FileNotFoundError:
                return None
        if len(content) > bytes_max:
            raise CheckpointMalformed(f"{self.path / name} is larger than {bytes_max} bytes")
        return content

    def _remove(self, name: str) -> None:
        with _failures_of(self.path):
            (self.path / name).unlink(missing_ok=True)
            sync_folder(self.path)

    def _write(self, name: str, content: bytes) -> None:
        with _failures_of(self.path):
            replace_file(self.path / name, content)


def read_boot_id(path: Path) -> str:
    """Return the id of the machine's present boot, "" if it cannot be read."""
    try:
        with path.open(encoding="ascii") as file:
            boot_id = file.read(SMALL_FILE_BYTES_MAX).strip()
    except (OSError, ValueError):
        return ""
    return boot_id if len(boot_id) <= BOOT_ID_LENGTH_MAX else ""


def _probe(path: Path) -> None:
    """Write a little: a full or failing disk shows here, before registration."""
    try:
        replace_file(path / PROBE_FILE, bytes(PROBE_BYTES))
    except OSError as error:
        if not (is_full(error) and give_up_reserve(path)):
            raise
        replace_file(path / PROBE_FILE, bytes(PROBE_BYTES))
    (path / PROBE_FILE).unlink()
    keep_reserve(path)


@contextmanager
def _failures_of(path: Path) -> Generator[None]:
    """Turn an error of the operating system into one that names the remedy."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, f"failed: {error.strerror}")
        kind = LogDirectoryFull if is_full(error) else LogDirectoryFailed
        raise kind(f"data directory {path} {remedy}") from error


def _epoch_from(content: bytes) -> BrokerEpoch | None:
    """Read the marker or the mark; None if it is malformed."""
    with suppress(ValueError, KeyError, TypeError):
        epoch = json.loads(content)["brokerEpoch"]
        if type(epoch) is int and epoch > 0:
            return BrokerEpoch(epoch)
    return None


def _meta_from(content: bytes, path: Path) -> MetaProperties:
    try:
        value = json.loads(content)
        log_dir_id, epoch = value["logDirId"], value["brokerEpoch"]
        clean_since_epoch = _integer(value.get("cleanSinceEpoch", 0))
        mount = value.get("mount", "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointMalformed(f"{path}: not the promised form: {error}") from error
    if not (isinstance(log_dir_id, str) and log_dir_id and type(epoch) is int and epoch >= 0):
        raise CheckpointMalformed(f"{path}: logDirId must be a text, brokerEpoch an integer")
    if not isinstance(mount, str):
        raise CheckpointMalformed(f"{path}: mount must be a text")
    return MetaProperties(
        log_dir_id=log_dir_id,
        broker_epoch=BrokerEpoch(epoch),
        clean_since_epoch=BrokerEpoch(clean_since_epoch),
        mount=mount,
    )


def _integer(value: object) -> int:
    if type(value) is int and value >= 0:
        return value
    raise ValueError(f"{value!r} is not a count")
