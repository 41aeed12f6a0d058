"""The simulated disk: whole batches, losses of power, state writes under way."""

from __future__ import annotations

import pytest

from strandline.core.effects import PersistState
from strandline.errors import InvariantViolation
from strandline.model import ControllerEpoch, LeaderEpoch
from strandline_simulation.disk import RecordLog, SimulatedDisk, new_batch


def _log() -> RecordLog:
    log = RecordLog()
    log.append(new_batch(0, LeaderEpoch(0), (1, 2)))
    log.append(new_batch(2, LeaderEpoch(0), (3,)))
    log.append(new_batch(3, LeaderEpoch(2), (4, 5)))
    return log


def test_a_log_reads_whole_batches_and_knows_its_epochs() -> None:
    log = _log()
    batches = log.read(from_offset=2, up_to_offset=5, batches_max=9)
    assert [batch.values for batch in batches] == [(3,), (4, 5)]
    assert log.read(from_offset=2, up_to_offset=4, batches_max=9)[-1].values == (3,)
    epochs = [(start.leader_epoch, start.start_offset) for start in log.epochs]
    assert epochs == [(0, 0), (2, 3)]


def test_a_log_is_cut_between_batches_only() -> None:
    log = _log()
    log.truncate_to(3)
    assert log.values == [1, 2, 3]
    with pytest.raises(InvariantViolation, match="between batches"):
        log.truncate_to(1)


def test_an_append_must_continue_the_log() -> None:
    with pytest.raises(InvariantViolation, match="log end"):
        _log().append(new_batch(9, LeaderEpoch(2), (6,)))


def test_power_loss_keeps_what_was_flushed() -> None:
    log = _log()
    log.flushed = 3
    log.lose_tail(0)
    assert log.values == [1, 2, 3]


def test_a_lost_process_leaves_a_state_write_done_or_not() -> None:
    effect = PersistState(token=1, controller_epoch=ControllerEpoch(5), partitions=())
    for reached, epoch in ((True, 5), (False, 0)):
        disk = SimulatedDisk(log_dir_id="dir", state_writes=[effect])
        outcomes = iter((reached, False))
        disk.end_of_process(lambda outcomes=outcomes: next(outcomes))  # type: ignore[misc]  # bound
        assert (disk.controller_epoch, disk.state_writes) == (epoch, [])
