"""Under which epochs a starting broker registers, and why its start is clean or not (ADR 0002).

Pure. `runtime.process.registration` calls it for real processes, the simulator for simulated ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from .model import BrokerEpoch, Registration


class StartEvidence(Enum):
    """Why a start is clean or not; values are the words of the log line."""

    SAME_BOOT = "SameBoot"
    CLEAN_SHUTDOWN = "CleanShutdown"
    FIRST_START = "FirstStart"
    NO_REGISTRATION = "NoRegistration"
    OTHER_LOG_DIRECTORY = "OtherLogDirectory"
    META_BEHIND = "MetaBehind"
    NO_PROOF = "NoProof"
    LOGS_DAMAGED = "LogsDamaged"
    STORAGE_FAILED = "StorageFailed"

    @property
    def clean(self) -> bool:
        """Tell whether the log is known to have lost nothing."""
        return self in {StartEvidence.SAME_BOOT, StartEvidence.CLEAN_SHUTDOWN}

    @property
    def may_have_lost_records(self) -> bool:
        """Tell whether records may be lost; a first start is unclean but had no records."""
        return not self.clean and self is not StartEvidence.FIRST_START


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOnDisk:
    """What the data directory and the machine say before this process writes anything.

    A new directory has a new log_dir_id and meta_epoch None. boot_id "" means unknown;
    marker_epoch None means that the last process did not stop in an orderly way.
    storage_failed means that an earlier process saw a write or fsync fail: the kernel may have
    dropped those pages from its cache, so the same boot proves nothing.
    """

    log_dir_id: str
    meta_epoch: BrokerEpoch | None
    marker_epoch: BrokerEpoch | None
    boot_id: str
    storage_failed: bool = False


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
    if disk.storage_failed:
        return StartEvidence.STORAGE_FAILED
    if disk.boot_id and disk.boot_id == stored.boot_id:
        return StartEvidence.SAME_BOOT
    # A marker of another epoch belongs to an earlier stop; something ran after it.
    if disk.marker_epoch == stored.broker_epoch:
        return StartEvidence.CLEAN_SHUTDOWN
    return StartEvidence.NO_PROOF


def damaged(decision: StartDecision) -> StartDecision:
    """Return the decision for a start that found less in its logs than was once there: unclean."""
    return replace(
        decision, clean_since_epoch=decision.broker_epoch, evidence=StartEvidence.LOGS_DAMAGED
    )
