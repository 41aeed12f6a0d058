"""The invariants of the cluster, checked after every event that can break them.

The oracle is the committed log: filled the first time a high watermark passes an offset, never
changed again. Each invariant is named by what it says. What is checked when:

- at each status write: epochs, leader and ISR, and for that partition all of the next two lines;
- after each step of a core that made a leader, moved a high watermark, changed an ISR or cut a
  log, for those partitions alone: ISR members and eligible leaders are complete, the leader counts
  every electable replica or commits nothing, and shows consumers nothing uncommitted;
- at the notice, the fetch or the answer itself: one leader per epoch, leaders are complete, the
  high watermark, what is committed, on disk, acknowledged and read;
- at each election, each loss of data and the end: acknowledged records, read from the disks;
- at the end, by `healing`: everything heals, and what stays offline has lost data.

Which ISR entries a lossy crash excuses is known here from the disks, not from what brokers
registered. Of a process this module sees a `Replica`, never the process itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from strandline.core.effects import ProposeIsr, SendFetch
from strandline.core.notices import (
    BecameFollower,
    BecameLeader,
    DurableEndAdvanced,
    HighWatermarkAdvanced,
    IsrChanged,
    Notice,
)
from strandline.core.views import PartitionView, RoleName
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerId,
    IsrEntry,
    LeaderEpoch,
    PartitionState,
    StoredPartition,
    TopicPartition,
)

from .disk import RecordLog, SimulatedDisk
from .oracle import CommittedLog, ObservedLeadership, Replica
from .store import SimulatedStore


class Invariant(StrEnum):
    """What must hold; the value is the sentence that a reader sees."""

    ONE_LEADER_PER_EPOCH = "one leader per epoch"
    EPOCHS_NEVER_FALL = "epochs never fall"
    LEADER_IN_ISR = "the leader is in the ISR, the ISR within the replicas"
    ELIGIBLE_UNDER_MIN_ISR = "replicas outside the ISR are eligible under min ISR only"
    WATERMARK_WITHIN_LOG = "the high watermark is within the log and never falls under one leader"
    COMMITTED_NEVER_CHANGES = "what is committed never changes"
    LEADER_IS_COMPLETE = "a leader has everything that earlier leaders committed"
    ISR_IS_COMPLETE = "every in-sync replica has everything that is committed"
    ELIGIBLE_ARE_COMPLETE = "every eligible leader has everything that is committed"
    MAXIMAL_ISR_COVERS = "a leader counts every replica that could be elected"
    READS_ARE_COMMITTED = "consumers read committed records only"
    ACKNOWLEDGED_IS_COMMITTED = "what is acknowledged is committed"
    WRITTEN_IS_ON_DISK = "what a replica counts as written is on its disk"
    LOG_START_IS_COMMITTED = "a log begins where a leader said, at or below what is committed"
    ACKNOWLEDGED_SURVIVES = "an acknowledged record survives at its offset"
    EVERYTHING_HEALS = "when faults end, the cluster heals and everything is answered"
    MOVES_KEEP_THE_ISR = "a move leaves as many replicas in sync as there were, or all"
    DELETED_COUNTS_NOT = "a log is deleted when its broker can not be elected any more"
    OFFLINE_NEEDS_LOSS = "a partition stays offline only if its ISR and eligible leaders lost data"
    CORE_HOLDS = "no invariant of our own code is broken"
    NOTHING_ELSE_RAISES = "our own code raises nothing but what it declares"


class InvariantBroken(Exception):
    """An invariant does not hold; values say where."""

    def __init__(self, invariant: Invariant, **values: object) -> None:
        self.invariant = invariant
        detail = ", ".join(f"{name}={value}" for name, value in values.items())
        super().__init__(f"{invariant}: {detail}")


class Invariants:
    """Judges one schedule."""

    def __init__(self, store: SimulatedStore, disks: Mapping[BrokerId, SimulatedDisk]) -> None:
        self._store = store
        self._disks = disks
        tps = [found.tp for found in store.partitions.values()]
        self.committed = {tp: CommittedLog() for tp in tps}
        self.acknowledged: dict[TopicPartition, dict[int, int]] = {tp: {} for tp in tps}
        self.log_starts = dict.fromkeys(tps, 0)
        """The highest log start that a leader decided: below it records are deleted on purpose."""
        self.elections = dict.fromkeys(tps, 0)
        self.eligible_elections = 0
        """Elections of a leader that was eligible, and not in the ISR."""
        self.moves_finished = 0
        self.acknowledged_after = dict.fromkeys(tps, 0)
        """Records acknowledged after an election that was not the first."""
        self.controllers_elected = 0
        self.deciding_brokers: set[BrokerId] = set()
        """The brokers that committed the state of a partition as controller."""
        self._matching_ends: dict[tuple[BrokerId, TopicPartition], int] = {}
        self._leaders: dict[tuple[TopicPartition, LeaderEpoch], Replica] = {}
        self._leaderships: dict[tuple[BrokerId, TopicPartition], ObservedLeadership] = {}
        self._accepted_epochs: dict[tuple[BrokerId, TopicPartition], LeaderEpoch] = {}
        self._removed: set[tuple[BrokerId, TopicPartition]] = set()
        """Brokers that once deleted their log of a partition."""
        self._last_states: dict[TopicPartition, PartitionState] = {}
        """The last committed ones, also while the object is lost."""
        self._unchecked: dict[TopicPartition, None] = {}
        self._deleted: set[TopicPartition] = set()
        """Partitions of a deleted topic, until a status is written that the topic came back for."""
        self._topics_deleted = 0

    # --- the store ------------------------------------------------------------------------

    def on_status_written(
        self, writer: BrokerId, before: StoredPartition, state: PartitionState
    ) -> None:
        """Judge a status write that was applied."""
        self.deciding_brokers.add(writer)
        self._last_states[before.tp] = state
        if self._store.topics and before.tp in self._deleted:
            self._deleted.discard(before.tp)
            self.committed[before.tp].begin_again()
        old, new, tp = before.state, state, before.tp
        _check_members(tp, new)
        rises = old is None or (
            (new.partition_epoch == old.partition_epoch + 1 or _is_fence(old, new))
            and new.leader_epoch >= old.leader_epoch
            and (new.leader == old.leader or new.leader_epoch > old.leader_epoch)
        )
        if not rises:
            raise InvariantBroken(Invariant.EPOCHS_NEVER_FALL, tp=tp, old=old, new=new)
        if old is not None:
            self._on_replicas(tp, old, new)
        self._check_candidates(tp)
        self._check_maximal_isr(tp)
        if new.leader != NO_LEADER and (old is None or old.reason == STATE_LOST):
            self._forget_leaders(tp, new.leader_epoch)
        if new.leader != NO_LEADER and (old is None or new.leader_epoch != old.leader_epoch):
            self.elections[tp] += 1
            if old is not None and new.leader in {e.broker_id for e in old.eligible_leaders}:
                self.eligible_elections += 1
            if tp in self._deleted:
                return
            trusted = [e.broker_id for e in new.candidates if not self._is_excused(e, tp)]
            self._check_acknowledged(tp, trusted, all)

    def _forget_leaders(self, tp: TopicPartition, first: LeaderEpoch) -> None:
        """Forget leaderships of a lost object that left nothing behind (ADR 0032, ADR 0049).

        Their epochs are used again. That is two leaders of one epoch unless nothing was committed,
        the former leader's process is gone, and either its log, too, or no broker knows the epoch.
        """
        committed = self.committed[tp]
        accepted = self._accepted_epochs.items()
        hosts = (e for (each, of), e in accepted if of == tp and tp in self._disks[each].logs)
        known = max(hosts, default=-1)
        for (led, epoch), leader in list(self._leaders.items()):
            is_over = not leader.alive or (leader.broker_id, tp) in self._removed
            if led == tp and epoch >= first and is_over:
                is_unknown = epoch > known and epoch not in committed.epochs
                has_log = tp in self._disks[leader.broker_id].logs
                if is_unknown or not (committed.values or has_log):
                    del self._leaders[led, epoch]

    def on_status_refused(self, before: StoredPartition, state: PartitionState) -> None:
        """Judge a status write of a current version that the CRD's rules refuse."""
        _check_members(before.tp, state)
        raise InvariantBroken(Invariant.EPOCHS_NEVER_FALL, old=before.state, new=state)

    def _on_replicas(self, tp: TopicPartition, old: PartitionState, new: PartitionState) -> None:
        """Judge the steps of a move, and count those that end one."""
        is_over = not new.adding_replicas and not new.removing_replicas
        if is_over and (old.adding_replicas or old.removing_replicas):
            self.moves_finished += 1
        if not set(old.replicas) <= set(new.replicas) and new.reason != STATE_LOST:
            were = sum(1 for each in old.isr_ids if each in old.original_replicas)
            if len(new.isr) < min(len(new.replicas), were):
                raise InvariantBroken(Invariant.MOVES_KEEP_THE_ISR, tp=tp, old=old, new=new)

    def on_topic_deleted(self) -> None:
        """Take note that the logs of all partitions may go to the trash."""
        self._topics_deleted += 1
        self._deleted.update(self.committed)

    # --- disks ----------------------------------------------------------------------------

    def on_truncated(self, broker_id: BrokerId, tp: TopicPartition, offset: int) -> None:
        """Take note that a log was cut."""
        key = (broker_id, tp)
        self._matching_ends[key] = min(self._matching_ends.get(key, 0), offset)
        self._unchecked[tp] = None

    def on_deleted(self, broker_id: BrokerId, tp: TopicPartition) -> None:
        """Judge that the log of a replica goes to the trash."""
        state = self._last_states.get(tp)
        is_candidate = state is None or broker_id in {e.broker_id for e in state.candidates}
        if is_candidate and not self._topics_deleted:
            raise InvariantBroken(
                Invariant.DELETED_COUNTS_NOT, tp=tp, broker=broker_id, state=state
            )
        self._matching_ends.pop((broker_id, tp), None)
        self._leaderships.pop((broker_id, tp), None)
        if self._topics_deleted:
            self._accepted_epochs.pop((broker_id, tp), None)
        self._removed.add((broker_id, tp))
        self._check_acknowledged(tp, self._disks, any)

    def on_log_start(self, replica: Replica, tp: TopicPartition, offset: int) -> None:
        """Judge that a log begins later: a leader decides, a follower takes the leader's start."""
        committed = len(self.committed[tp].values)
        if self._view(replica, tp).role is RoleName.LEADER:
            self.log_starts[tp] = max(self.log_starts[tp], offset)
        if not offset <= min(self.log_starts[tp], committed):
            values = {"offset": offset, "decided": self.log_starts[tp], "committed": committed}
            raise _broken(Invariant.LOG_START_IS_COMMITTED, replica, tp, **values)

    def on_data_lost(self, broker_id: BrokerId, *, wiped: bool) -> None:
        """Take note that a broker lost records, and every accepted epoch if its disk was wiped."""
        for tp in self.committed:
            log = self._disks[broker_id].logs.get(tp)
            self.on_truncated(broker_id, tp, 0 if log is None else log.end)
            if wiped:
                self._accepted_epochs.pop((broker_id, tp), None)
            self._check_acknowledged(tp, self._disks, any)

    # --- processes ------------------------------------------------------------------------

    def on_notice(self, replica: Replica, notice: Notice) -> None:
        """Judge a notice of a core."""
        match notice:
            case HighWatermarkAdvanced():
                self._on_high_watermark(replica, notice.tp, notice.high_watermark)
            case BecameLeader():
                self._on_accepted_epoch(replica, notice.tp, notice.leader_epoch)
                self._on_leader(replica, notice.tp, notice.leader_epoch)
            case BecameFollower():
                key = (replica.broker_id, notice.tp)
                if notice.leader == NO_LEADER and key in self._removed:
                    # It forgot its epochs with its log. A fence begins below those that it had, and
                    # is raised above those of the brokers that have logs (ADR 0004).
                    self._accepted_epochs.pop(key, None)
                self._on_accepted_epoch(replica, notice.tp, notice.leader_epoch)
                self._leaderships.pop((replica.broker_id, notice.tp), None)
            case IsrChanged():
                self._unchecked[notice.tp] = None
            case DurableEndAdvanced():
                self._check_on_disk(replica, notice.tp, notice.durable_end)
            case _:
                pass

    def on_fetch_sent(self, replica: Replica, effect: SendFetch) -> None:
        """Judge what a follower tells: that it has everything below its fetch offsets."""
        for fetch in effect.partitions:
            self._check_on_disk(replica, fetch.tp, fetch.fetch_offset)

    def _check_on_disk(self, replica: Replica, tp: TopicPartition, end: int) -> None:
        """Judge that a power cut would leave everything below an offset."""
        disk = self._disks[replica.broker_id]
        if disk.flushes and (flushed := disk.logs[tp].flushed) < end:
            raise _broken(Invariant.WRITTEN_IS_ON_DISK, replica, tp, counted=end, flushed=flushed)

    def on_proposed(self, effect: ProposeIsr) -> None:
        """Take note that a leader changes its maximal ISR."""
        self._unchecked[effect.tp] = None

    def on_controller_elected(self) -> None:
        """Count an election of a controller."""
        self.controllers_elected += 1

    def after_step(self, replica: Replica) -> None:
        """Judge what needs the whole step to be performed."""
        if self._unchecked:
            unchecked, self._unchecked = self._unchecked, {}
            for tp in unchecked:
                self._check_candidates(tp)
                self._check_maximal_isr(tp)
                leadership = self._leaderships.get((replica.broker_id, tp))
                if leadership is not None and leadership.replica is replica:
                    self._check_leader(replica, tp)

    def _check_leader(self, replica: Replica, tp: TopicPartition) -> None:
        """Judge what a leader shows consumers, the inherited high watermark included."""
        view = self._view(replica, tp)
        visible, is_leader = view.high_watermark, view.role is RoleName.LEADER
        if is_leader and not self._holds_committed(replica.broker_id, tp, visible):
            raise _broken(Invariant.WATERMARK_WITHIN_LOG, replica, tp, visible=visible)

    def _on_accepted_epoch(self, replica: Replica, tp: TopicPartition, epoch: LeaderEpoch) -> None:
        key = (replica.broker_id, tp)
        if epoch < self._accepted_epochs.get(key, epoch):
            raise InvariantBroken(
                Invariant.EPOCHS_NEVER_FALL, broker=replica.broker_id, tp=tp, epoch=epoch
            )
        self._accepted_epochs[key] = epoch

    def _on_leader(self, replica: Replica, tp: TopicPartition, epoch: LeaderEpoch) -> None:
        other = self._leaders.setdefault((tp, epoch), replica)
        if other is not replica:
            leaders = (other.incarnation, replica.incarnation)
            raise InvariantBroken(
                Invariant.ONE_LEADER_PER_EPOCH, tp=tp, epoch=epoch, leaders=leaders
            )
        end = self.committed[tp].end_below(epoch)
        if not self._holds_committed(replica.broker_id, tp, end):
            has = self._matching_ends[replica.broker_id, tp]
            raise _broken(
                Invariant.LEADER_IS_COMPLETE, replica, tp, epoch=epoch, committed=end, has=has
            )
        self._leaderships[replica.broker_id, tp] = ObservedLeadership(replica, epoch, 0)
        self._unchecked[tp] = None

    def _on_high_watermark(self, replica: Replica, tp: TopicPartition, offset: int) -> None:
        log = self._disks[replica.broker_id].logs[tp]
        leadership = self._leaderships[replica.broker_id, tp]
        if not leadership.high_watermark <= offset <= log.end:
            before, end = leadership.high_watermark, log.end
            raise _broken(
                Invariant.WATERMARK_WITHIN_LOG, replica, tp, before=before, after=offset, end=end
            )
        leadership.show_up_to(offset)
        committed = self.committed[tp]
        known = len(committed.values)
        if not self._holds_committed(replica.broker_id, tp, min(known, offset)):
            epoch, end = leadership.epoch, self._matching_ends[replica.broker_id, tp]
            raise _broken(Invariant.COMMITTED_NEVER_CHANGES, replica, tp, epoch=epoch, offset=end)
        if offset <= known:
            return
        added = log.values[known - log.start : offset - log.start]
        committed.extend(added, leadership.epoch)
        self._matching_ends[replica.broker_id, tp] = offset
        self._unchecked[tp] = None
        self._check_later_leaders(tp, leadership.epoch, offset)

    def _check_later_leaders(self, tp: TopicPartition, epoch: LeaderEpoch, end: int) -> None:
        for (broker_id, other), leadership in self._leaderships.items():
            later = other == tp and leadership.epoch > epoch and leadership.replica.alive
            if later and not self._holds_committed(broker_id, tp, end):
                values = {"epoch": leadership.epoch, "committed": end, "committed_by_epoch": epoch}
                raise _broken(Invariant.LEADER_IS_COMPLETE, leadership.replica, tp, **values)

    def on_acknowledged(
        self, replica: Replica, tp: TopicPartition, base_offset: int, values: tuple[int, ...]
    ) -> None:
        """Judge an answer that says "committed"."""
        end = base_offset + len(values)
        if tuple(self.committed[tp].values[base_offset:end]) != values:
            raise _broken(Invariant.ACKNOWLEDGED_IS_COMMITTED, replica, tp, offset=base_offset)
        self.acknowledged[tp].update(enumerate(values, start=base_offset))
        if self.elections[tp] > 1:
            self.acknowledged_after[tp] += len(values)

    def on_read(
        self, replica: Replica, tp: TopicPartition, position: int, values: list[int]
    ) -> None:
        """Judge what a consumer is given."""
        if values and self.committed[tp].values[position : position + len(values)] != values:
            raise _broken(Invariant.READS_ARE_COMMITTED, replica, tp, offset=position)

    # --- whole states ---------------------------------------------------------------------

    def _check_candidates(self, tp: TopicPartition) -> None:
        """Judge the logs of all that may be elected; a loss of data excuses an older entry."""
        if tp in self._deleted:
            return
        state, end = self._store.state(tp), len(self.committed[tp].values)
        for entry in () if state is None else state.candidates:
            if not self._is_excused(entry, tp) and not self._holds_committed(
                entry.broker_id, tp, end
            ):
                has = self._matching_ends[entry.broker_id, tp]
                is_member = state is not None and entry in state.isr
                broken = Invariant.ISR_IS_COMPLETE if is_member else Invariant.ELIGIBLE_ARE_COMPLETE
                raise InvariantBroken(broken, tp=tp, member=entry, committed=end, has=has)

    def _is_excused(self, entry: IsrEntry, tp: TopicPartition) -> bool:
        """Tell whether a member lost data since, or its log: then it gets no state (ADR 0057)."""
        disk = self._disks[entry.broker_id]
        return not disk.covers(entry) or (tp in disk.trash and tp not in disk.logs)

    def _check_maximal_isr(self, tp: TopicPartition) -> None:
        state = self._store.state(tp)
        if state is None or state.leader == NO_LEADER:
            return
        leadership = self._leaderships.get((state.leader, tp))
        if leadership is None or leadership.epoch != state.leader_epoch:
            return
        if not leadership.replica.alive:
            return
        view = self._view(leadership.replica, tp)
        counted = view.maximal_isr
        commits = len(view.isr) >= view.min_insync_replicas
        electable = state.candidates if commits else state.isr
        if view.role is RoleName.LEADER and not counted.issuperset(e.broker_id for e in electable):
            raise InvariantBroken(
                Invariant.MAXIMAL_ISR_COVERS, tp=tp, stored=electable, counted=sorted(counted)
            )

    def check_survival(self, tp: TopicPartition) -> None:
        """Judge the end: every in-sync replica has what was acknowledged; offline, some disk."""
        state = self._store.state(tp)
        if state is None or state.leader == NO_LEADER:
            self._check_acknowledged(tp, self._disks, any)
        else:
            self._check_acknowledged(tp, state.isr_ids, all)

    def _check_acknowledged(
        self,
        tp: TopicPartition,
        brokers: Iterable[BrokerId],
        enough: Callable[[Iterable[bool]], bool],
    ) -> None:
        """Judge that all or any of these brokers have each acknowledged record at its offset."""
        found: list[RecordLog | None] = [self._disks[each].logs.get(tp) for each in brokers]
        if enough is any:
            found += [disk.trash[tp].log for disk in self._disks.values() if tp in disk.trash]
        logs = [RecordLog() if log is None else log for log in found]
        for offset, value in self.acknowledged[tp].items():
            if offset >= self.log_starts[tp] and not enough(
                log.value_at(offset) == value for log in logs
            ):
                raise InvariantBroken(
                    Invariant.ACKNOWLEDGED_SURVIVES, tp=tp, offset=offset, value=value
                )

    def _view(self, replica: Replica, tp: TopicPartition) -> PartitionView:
        view = replica.view(tp)
        if view is None:
            raise InvariantBroken(
                Invariant.CORE_HOLDS, broker=replica.incarnation, tp=tp, view=None
            )
        return view

    def _holds_committed(self, broker_id: BrokerId, tp: TopicPartition, end: int) -> bool:
        """Tell whether a log begins with the committed records below `end`.

        Beyond the oracle there is nothing to agree with, so such an end is never had.
        """
        key = (broker_id, tp)
        matching_end = self._matching_ends.get(key, 0)
        if matching_end >= end:
            return True
        log, values = self._disks[broker_id].logs.get(tp), self.committed[tp].values
        self._matching_ends[key] = matching_end
        if log is not None and matching_end < self.log_starts[tp] <= log.end:
            # What lies below was deleted on purpose, after it was committed.
            matching_end = self.log_starts[tp]
        if log is None or log.start > matching_end:
            return False
        stop = min(end, log.end, len(values))
        if log.values[matching_end - log.start : stop - log.start] == values[matching_end:stop]:
            matching_end = stop
        else:
            while log.values[matching_end - log.start] == values[matching_end]:
                matching_end += 1
        self._matching_ends[key] = matching_end
        return matching_end >= end


def _broken(
    invariant: Invariant, leader: Replica, tp: TopicPartition, **values: object
) -> InvariantBroken:
    return InvariantBroken(invariant, leader=leader.incarnation, tp=tp, **values)


def _check_members(tp: TopicPartition, state: PartitionState) -> None:
    members, candidates = state.isr_ids, {entry.broker_id for entry in state.candidates}
    if not candidates <= set(state.replicas) or (
        state.leader != NO_LEADER and state.leader not in members
    ):
        raise InvariantBroken(Invariant.LEADER_IN_ISR, tp=tp, state=state)
    if state.eligible_leaders and len(members) >= state.min_insync_replicas:
        raise InvariantBroken(Invariant.ELIGIBLE_UNDER_MIN_ISR, tp=tp, state=state)


def _is_fence(old: PartitionState, new: PartitionState) -> bool:
    """Tell whether a state raises the fence of a lost partition, which may leave epochs out."""
    return new.reason == STATE_LOST and new.partition_epoch > old.partition_epoch
