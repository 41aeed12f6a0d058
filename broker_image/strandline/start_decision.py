"""Under which epochs a starting broker registers, and why its start is clean or not (ADR 0002).

Pure. `runtime.process.registration` and `log.recovery` call it for real processes, the simulator
for simulated ones. What speaks against a clean start is on disk before the start removes its
traces: `StartDecision.clean_since_epoch` goes to meta, and only then is a log cut or a checkpoint
lowered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from .model import BrokerEpoch, Registration, TopicPartition


class StartEvidence(Enum):
    """Why a start is clean or not; values are the words of the log line."""

    SAME_BOOT = "SameBoot"
    CLEAN_SHUTDOWN = "CleanShutdown"
    FLUSHED = "Flushed"
    FIRST_START = "FirstStart"
    NO_REGISTRATION = "NoRegistration"
    OTHER_LOG_DIRECTORY = "OtherLogDirectory"
    META_BEHIND = "MetaBehind"
    UNREGISTERED_LOSS = "UnregisteredLoss"
    NO_PROOF = "NoProof"
    LOGS_DAMAGED = "LogsDamaged"
    STORAGE_FAILED = "StorageFailed"

    @property
    def clean(self) -> bool:
        """Tell whether the log is known to have lost nothing."""
        return self in {
            StartEvidence.SAME_BOOT,
            StartEvidence.CLEAN_SHUTDOWN,
            StartEvidence.FLUSHED,
        }

    @property
    def proves_every_byte(self) -> bool:
        """Tell whether the log is as it was written, also where nothing counted as written yet.

        What is appended and not fsynced may come back torn after a power cut, whatever its topic
        waits for.
        """
        return self.clean and self is not StartEvidence.FLUSHED

    @property
    def may_have_lost_records(self) -> bool:
        """Tell whether records may be lost; a first start is unclean but had no records."""
        return not self.clean and self is not StartEvidence.FIRST_START


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOnDisk:
    """What the data directory and the machine say before this process writes anything.

    A new directory has a new log_dir_id and meta_epoch None. boot_id "" means unknown;
    marker_epoch None means that the last process did not stop in an orderly way. flushed_epoch is
    that of a process which fsynced its logs before it registered, and then every record before it
    counted it; None without one.
    mount is the present mount of the directory, meta_mount that of the last start; "" is unknown.
    meta_clean_since_epoch is what the last start meant to register; higher than what is registered,
    it tells of a loss that a start found before it died.
    failed_epoch is that of a process which saw a read, write or fsync fail: the kernel may have
    dropped those pages from its cache, so the same boot proves nothing.
    """

    log_dir_id: str
    meta_epoch: BrokerEpoch | None
    marker_epoch: BrokerEpoch | None
    boot_id: str
    mount: str
    meta_mount: str
    flushed_epoch: BrokerEpoch | None = None
    meta_clean_since_epoch: BrokerEpoch = BrokerEpoch(0)
    failed_epoch: BrokerEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDecision:
    """Under which epochs a broker registers; clean_since_epoch <= broker_epoch."""

    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    evidence: StartEvidence


def decide_registration(
    disk: FoundOnDisk, stored: Registration | None, *, highest_entry_epoch: BrokerEpoch
) -> StartDecision:
    """Decide under which epochs a starting broker registers.

    The broker epoch exceeds every epoch this id ever used, even if the Broker object was
    deleted or the disk is new: an old ISR entry must never look present. After a clean start
    clean_since_epoch stays, so that ISR entries of earlier epochs still count.

    Source:  ADR 0002; Kafka KIP-966 for the need of an unclean-start rule
    """
    known = max(stored.broker_epoch if stored else 0, highest_entry_epoch, disk.meta_epoch or 0)
    broker_epoch = BrokerEpoch(known + 1)
    evidence = _evidence(disk, stored, first=known == 0)
    return StartDecision(
        broker_epoch=broker_epoch,
        clean_since_epoch=stored.clean_since_epoch if stored and evidence.clean else broker_epoch,
        evidence=evidence,
    )


def _evidence(disk: FoundOnDisk, stored: Registration | None, *, first: bool) -> StartEvidence:
    if stored is None:
        return StartEvidence.FIRST_START if first else StartEvidence.NO_REGISTRATION
    if disk.meta_epoch is None or disk.log_dir_id != stored.log_dir_id:
        return StartEvidence.OTHER_LOG_DIRECTORY
    # meta.json is written before the registration: a lower epoch in it means an older disk.
    if disk.meta_epoch < stored.broker_epoch:
        return StartEvidence.META_BEHIND
    if disk.meta_clean_since_epoch > stored.clean_since_epoch:
        return StartEvidence.UNREGISTERED_LOSS
    # Nothing removes the mark in the same moment as the registration takes account of it.
    if disk.failed_epoch is not None and disk.failed_epoch >= stored.clean_since_epoch:
        return StartEvidence.STORAGE_FAILED
    # The page cache belongs to a mount: one that ended within the boot took its pages along.
    if _is_same(disk.boot_id, stored.boot_id) and _is_same(disk.mount, disk.meta_mount):
        return StartEvidence.SAME_BOOT
    # A marker of another epoch belongs to an earlier stop; something ran after it.
    if disk.marker_epoch == stored.broker_epoch:
        return StartEvidence.CLEAN_SHUTDOWN
    # A higher epoch is that of a start which had fsynced all, and died before it registered.
    if disk.flushed_epoch is not None and disk.flushed_epoch >= stored.broker_epoch:
        return StartEvidence.FLUSHED
    return StartEvidence.NO_PROOF


def _is_same(now: str, before: str) -> bool:
    return now != "" and now == before


def may_trust_fsync(
    disk: FoundOnDisk, stored: Registration | None, evidence: StartEvidence
) -> bool:
    """Tell whether an fsync of the logs proves that all of them is on disk.

    After a failed fsync the kernel may call pages clean that never reached the disk. A start that
    is clean, or the first, has none of these; neither has a machine that has booted since.
    """
    if evidence.clean or evidence is StartEvidence.FIRST_START:
        return True
    booted = stored is not None and "" not in {disk.boot_id, stored.boot_id}
    return booted and stored is not None and disk.boot_id != stored.boot_id


def damaged(decision: StartDecision) -> StartDecision:
    """Return the decision for a start that found less in its logs than was once there: unclean."""
    return replace(
        decision, clean_since_epoch=decision.broker_epoch, evidence=StartEvidence.LOGS_DAMAGED
    )


def holds_less_than_before(
    *, log_end_offset: int | None, high_watermark: int, recovery_point: int
) -> bool:
    """Tell whether a log lost records, by the checkpoints that lie beside it.

    log_end_offset None means that there is no log: a loss only if a checkpoint knows records of
    it, because the state file names a partition before its log is made. The recovery point of an
    existing log proves nothing: a truncation cuts the log first.

    Units:  exclusive offsets; 0 for what no checkpoint names
    """
    if log_end_offset is None:
        return max(high_watermark, recovery_point) > 0
    return high_watermark > log_end_offset


def clamped_checkpoint(
    offsets: Mapping[TopicPartition, int], log_end_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return a checkpoint that claims nothing beyond the logs that exist.

    A start writes it before it registers. With the higher offsets still on disk, a start after
    the next kill would find the same loss again, and void ISR entries that lost nothing.
    """
    return {
        tp: min(offset, log_end_offsets[tp])
        for tp, offset in offsets.items()
        if tp in log_end_offsets
    }
