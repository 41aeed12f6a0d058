"""The pure rule of registration: each kind of start, and the epochs that it may claim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.model import BrokerEpoch, BrokerId, IsrEntry, Registration, covers
from strandline.runtime.process.registration_watch import RegistrationVerdict, judge_registration
from strandline.start_decision import (
    FoundOnDisk,
    StartEvidence,
    decide_registration,
    may_trust_fsync,
)

OURS = "our-directory"


def disk(
    *,
    meta: int | None = 5,
    marker: int | None = None,
    boot: str = "boot-1",
    log_dir: str = OURS,
    failed: int | None = None,
    meta_clean_since: int = 0,
    flushed: int | None = None,
    mount: str = "mount-1",
    meta_mount: str = "mount-1",
) -> FoundOnDisk:
    return FoundOnDisk(
        log_dir_id=log_dir,
        meta_epoch=None if meta is None else BrokerEpoch(meta),
        marker_epoch=None if marker is None else BrokerEpoch(marker),
        boot_id=boot,
        mount=mount,
        meta_mount=meta_mount,
        flushed_epoch=None if flushed is None else BrokerEpoch(flushed),
        meta_clean_since_epoch=BrokerEpoch(meta_clean_since),
        failed_epoch=None if failed is None else BrokerEpoch(failed),
    )


def registration(
    *,
    epoch: int = 5,
    clean_since: int = 2,
    boot: str = "boot-1",
    log_dir: str = OURS,
    incarnation: str = "pod/1",
) -> Registration:
    return Registration(
        broker_id=BrokerId(0),
        broker_epoch=BrokerEpoch(epoch),
        clean_since_epoch=BrokerEpoch(clean_since),
        incarnation=incarnation,
        endpoints=(),
        log_dir_id=log_dir,
        boot_id=boot,
    )


@pytest.mark.parametrize(
    ("found", "stored", "entry", "expected"),
    [
        pytest.param(
            disk(), registration(), 5, (6, 2, StartEvidence.SAME_BOOT), id="killed on one boot"
        ),
        pytest.param(
            disk(boot="boot-2", marker=5),
            registration(),
            5,
            (6, 2, StartEvidence.CLEAN_SHUTDOWN),
            id="orderly stop, then a reboot",
        ),
        pytest.param(
            disk(mount="mount-2"),
            registration(),
            5,
            (6, 6, StartEvidence.NO_PROOF),
            id="a volume attached anew within one boot",
        ),
        pytest.param(
            disk(mount="mount-2", marker=5),
            registration(),
            5,
            (6, 2, StartEvidence.CLEAN_SHUTDOWN),
            id="a volume attached anew after an orderly stop",
        ),
        pytest.param(
            disk(mount="", meta_mount=""),
            registration(),
            5,
            (6, 6, StartEvidence.NO_PROOF),
            id="an unknown mount is equal to nothing",
        ),
        pytest.param(
            disk(meta_mount=""),
            registration(),
            5,
            (6, 6, StartEvidence.NO_PROOF),
            id="meta of a version that knew no mounts",
        ),
        pytest.param(
            disk(boot="boot-2", mount="mount-2", flushed=5),
            registration(),
            5,
            (6, 2, StartEvidence.FLUSHED),
            id="power lost, but every record was fsynced",
        ),
        pytest.param(
            disk(boot="boot-2", meta=6, flushed=6),
            registration(),
            5,
            (7, 2, StartEvidence.FLUSHED),
            id="a start had fsynced all, and died before it registered",
        ),
        pytest.param(
            disk(boot="boot-2", flushed=4),
            registration(),
            5,
            (6, 6, StartEvidence.NO_PROOF),
            id="an earlier process had fsynced every record",
        ),
        pytest.param(
            disk(boot="boot-2", flushed=5, failed=5),
            registration(),
            5,
            (6, 6, StartEvidence.STORAGE_FAILED),
            id="an fsync failed in a process that fsynced every record",
        ),
        pytest.param(
            disk(failed=5),
            registration(),
            5,
            (6, 6, StartEvidence.STORAGE_FAILED),
            id="an fsync failed, then a restart on one boot",
        ),
        pytest.param(
            disk(meta=6, failed=6),
            registration(),
            5,
            (7, 7, StartEvidence.STORAGE_FAILED),
            id="a read failed in a start that did not register",
        ),
        pytest.param(
            disk(failed=4),
            registration(clean_since=5),
            5,
            (6, 5, StartEvidence.SAME_BOOT),
            id="a failure that the registration took account of",
        ),
        pytest.param(
            disk(meta=6, meta_clean_since=6, marker=5),
            registration(),
            5,
            (7, 7, StartEvidence.UNREGISTERED_LOSS),
            id="died after it had found a loss",
        ),
        pytest.param(
            disk(meta=6, meta_clean_since=2, boot="boot-2", marker=5),
            registration(),
            5,
            (7, 2, StartEvidence.CLEAN_SHUTDOWN),
            id="died after it had found a marker",
        ),
        pytest.param(
            disk(boot="boot-2", marker=4),
            registration(),
            5,
            (6, 6, StartEvidence.NO_PROOF),
            id="marker of an earlier epoch",
        ),
        pytest.param(
            disk(meta=6, boot="boot-2", marker=6),
            registration(),
            5,
            (7, 7, StartEvidence.NO_PROOF),
            id="marker of a later epoch",
        ),
        pytest.param(
            disk(boot="boot-2"),
            registration(),
            5,
            (6, 6, StartEvidence.NO_PROOF),
            id="power lost",
        ),
        pytest.param(
            disk(boot=""),
            registration(boot=""),
            5,
            (6, 6, StartEvidence.NO_PROOF),
            id="unknown boot id is equal to nothing",
        ),
        pytest.param(
            disk(boot="", marker=5),
            registration(boot=""),
            5,
            (6, 2, StartEvidence.CLEAN_SHUTDOWN),
            id="unknown boot id, but a marker",
        ),
        pytest.param(
            disk(meta=None, log_dir="new"),
            registration(),
            5,
            (6, 6, StartEvidence.OTHER_LOG_DIRECTORY),
            id="wiped disk on the same boot",
        ),
        pytest.param(
            disk(log_dir="other", marker=5),
            registration(),
            5,
            (6, 6, StartEvidence.OTHER_LOG_DIRECTORY),
            id="another volume, however clean",
        ),
        pytest.param(
            disk(meta=4),
            registration(),
            5,
            (6, 6, StartEvidence.META_BEHIND),
            id="a snapshot of our disk from before",
        ),
        pytest.param(
            disk(meta=4, marker=5),
            registration(),
            5,
            (6, 6, StartEvidence.META_BEHIND),
            id="meta behind beats the marker",
        ),
        pytest.param(
            disk(meta=8),
            registration(),
            5,
            (9, 2, StartEvidence.SAME_BOOT),
            id="died between meta and registration",
        ),
        pytest.param(
            disk(meta=None, log_dir="new"),
            None,
            0,
            (1, 1, StartEvidence.FIRST_START),
            id="first start ever",
        ),
        pytest.param(
            disk(),
            None,
            0,
            (6, 6, StartEvidence.NO_REGISTRATION),
            id="Broker object deleted by hand, disk kept",
        ),
        pytest.param(
            disk(meta=None, log_dir="new"),
            None,
            41,
            (42, 42, StartEvidence.NO_REGISTRATION),
            id="Broker object deleted and disk wiped",
        ),
        pytest.param(
            disk(),
            registration(epoch=3, clean_since=1),
            9,
            (10, 1, StartEvidence.SAME_BOOT),
            id="an entry knows more than the Broker object",
        ),
    ],
)
def test_a_start_claims_what_it_can_prove(
    found: FoundOnDisk,
    stored: Registration | None,
    entry: int,
    expected: tuple[int, int, StartEvidence],
) -> None:
    decision = decide_registration(found, stored, highest_entry_epoch=BrokerEpoch(entry))
    assert (
        decision.broker_epoch,
        decision.clean_since_epoch,
        decision.evidence,
    ) == expected


def test_a_power_cut_leaves_a_tail_whose_bytes_nothing_proves() -> None:
    clean = {each for each in StartEvidence if each.clean}
    assert {each for each in clean if not each.proves_every_byte} == {StartEvidence.FLUSHED}
    assert not any(each.proves_every_byte for each in set(StartEvidence) - clean)


def test_every_broker_killed_on_one_boot_keeps_its_entries() -> None:
    """All brokers die and return: every ISR entry has an older broker epoch, and must count."""
    stored = registration(epoch=5, clean_since=2)
    decision = decide_registration(disk(), stored, highest_entry_epoch=BrokerEpoch(5))
    covered = [
        covers(
            IsrEntry(broker_id=BrokerId(0), broker_epoch=BrokerEpoch(epoch)),
            clean_since_epoch=decision.clean_since_epoch,
            broker_epoch=decision.broker_epoch,
        )
        for epoch in (5, 2, 1)
    ]
    assert covered == [True, True, False]


epochs = st.integers(1, 6)
found_disks = st.builds(
    disk,
    meta=st.none() | epochs,
    marker=st.none() | epochs,
    boot=st.sampled_from(["", "boot-1", "boot-2"]),
    log_dir=st.sampled_from([OURS, "other"]),
)
registrations = st.builds(
    lambda low, more, boot, log_dir: registration(
        epoch=low + more, clean_since=low, boot=boot, log_dir=log_dir
    ),
    low=epochs,
    more=st.integers(0, 3),
    boot=st.sampled_from(["", "boot-1", "boot-2"]),
    log_dir=st.sampled_from([OURS, "other"]),
)


@given(found=found_disks, stored=st.none() | registrations, entry=st.integers(0, 9))
def test_an_epoch_is_never_used_twice_and_an_unclean_start_covers_no_old_entry(
    found: FoundOnDisk, stored: Registration | None, entry: int
) -> None:
    decision = decide_registration(found, stored, highest_entry_epoch=BrokerEpoch(entry))
    assert decision.broker_epoch > max(
        entry, found.meta_epoch or 0, stored.broker_epoch if stored else 0
    )
    assert decision.clean_since_epoch <= decision.broker_epoch
    if not decision.evidence.clean:
        assert decision.clean_since_epoch == decision.broker_epoch
    else:
        assert stored is not None
        assert decision.clean_since_epoch == stored.clean_since_epoch
        assert found.log_dir_id == stored.log_dir_id


@pytest.mark.parametrize(
    ("found", "stored", "evidence", "trusted"),
    [
        (disk(), registration(), StartEvidence.SAME_BOOT, True),
        (disk(meta=None), None, StartEvidence.FIRST_START, True),
        (disk(boot="boot-2"), registration(), StartEvidence.NO_PROOF, True),
        (disk(failed=5), registration(), StartEvidence.STORAGE_FAILED, False),
        (disk(), registration(boot=""), StartEvidence.NO_PROOF, False),
        (disk(boot=""), registration(), StartEvidence.NO_PROOF, False),
        (disk(), None, StartEvidence.NO_REGISTRATION, False),
    ],
)
def test_an_fsync_proves_nothing_in_a_page_cache_that_may_hide_a_failed_one(
    found: FoundOnDisk, stored: Registration | None, evidence: StartEvidence, trusted: bool
) -> None:
    assert may_trust_fsync(found, stored, evidence) is trusted


def test_a_first_start_is_not_counted_as_a_loss() -> None:
    assert not StartEvidence.FIRST_START.clean
    assert not StartEvidence.FIRST_START.may_have_lost_records
    assert StartEvidence.NO_PROOF.may_have_lost_records
    assert not StartEvidence.SAME_BOOT.may_have_lost_records


@pytest.mark.parametrize(
    ("stored", "verdict"),
    [
        (registration(), RegistrationVerdict.OURS),
        (registration(epoch=4), RegistrationVerdict.OURS),
        (registration(epoch=6), RegistrationVerdict.ANOTHERS),
        (registration(incarnation="pod/2"), RegistrationVerdict.ANOTHERS),
        (registration(incarnation="pod/2", epoch=6), RegistrationVerdict.ANOTHERS),
        (registration(incarnation="pod/2", epoch=4), RegistrationVerdict.MISSING),
        (None, RegistrationVerdict.MISSING),
    ],
)
def test_a_running_broker_judges_the_stored_registration_of_its_id(
    stored: Registration | None, verdict: RegistrationVerdict
) -> None:
    assert judge_registration(registration(), stored) is verdict
