"""One partition's walk through what happens to its brokers: leaders, ISRs, offsets.

Called once for each partition, so that memory does not grow with their number. The rules are those
that every reader of Kafka knows, with whole milliseconds and records:

- the first live replica of the ISR, in the order of assignment, leads when the leader is lost;
- a follower that has not had all for replica.lag.time.max.ms leaves at the leader's next check;
- one that has all again joins; the high watermark is the minimum over the ISR;
- a replica that returns cuts its log at the begin of the first epoch that it does not know.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from .brokers import BEFORE_MS, ClusterHistory
from .lines import Line
from .plan import CHECKS_PER_LAG
from .replicas import (
    Mode,
    PartitionHistory,
    Replica,
    Shown,
    Stored,
    TrueElection,
    TrueTruncation,
    TrueZombie,
)
from .steps import Action, Step

ELECT_MS: Final = (20, 80)
"""From the loss of a leader to the begin of the next leadership."""
RETURN_MS: Final = (100, 400)
"""From the start of a process until its log is cut and it fetches."""
CATCH_UP_MS: Final = (500, 3_000)
ZOMBIE_SHARE: Final = 8
"""A leader that nobody follows gets this part of the clients' records."""
MEMBERS_RETRY_MS: Final = 500


def walked(cluster: ClusterHistory, topic: str, partition: int) -> PartitionHistory:
    """Return the history of one partition."""
    return _Walk(cluster, topic, partition).run()


class _Walk:
    """The partition at a moment, and what is planned for later moments."""

    def __init__(self, cluster: ClusterHistory, topic: str, partition: int) -> None:
        self.plan = plan = cluster.plan
        self.topic, self.partition = topic, partition
        self.chance = plan.chance("partition", topic, partition)
        self.min_isr = plan.min_isr(topic)
        begin = plan.start_ms - BEFORE_MS
        self.now_ms = begin
        assigned = plan.assignment(topic, partition)
        self.replicas = {broker: Replica(broker) for broker in assigned}
        self.check_ms = plan.lag_time_max_ms // CHECKS_PER_LAG
        self.phase_ms = self.chance.randrange(self.check_ms)
        state = Stored(
            at_ms=begin,
            leader=assigned[0],
            epoch=1,
            isr=frozenset(assigned),
            version=1,
            since_ms=begin,
            changed_ms=begin,
        )
        self.states = [state]
        self.committed = Line()
        self.epoch_starts = {1: 0}
        self.elections: list[TrueElection] = []
        self.truncations: list[TrueTruncation] = []
        self.zombies: list[TrueZombie] = []
        self.lost_by_epoch: dict[int, int] = {}
        self.lost_ms: int | None = None
        """Since when there is no leader that could commit."""
        self.may_be_unclean = False
        self.planned: list[tuple[int, int, Callable[[], None]]] = []
        self.order = 0
        for replica in self.replicas.values():
            replica.known = state
            for line in (replica.end, replica.watermark, replica.seen_end, *replica.counters):
                line.set(begin, 0)
            replica.caught_up.set(begin, begin, rise=1, per_ms=1)
        self.committed.set(begin, 0)
        self.leader.mode = Mode.LEAD
        for step in cluster.steps:
            if step.concerns(topic, partition) and step.broker in {None, *assigned}:
                self.later(step.at_ms, partial(self.take, step))

    @property
    def state(self) -> Stored:
        return self.states[-1]

    @property
    def leader(self) -> Replica:
        return self.replicas[self.state.leader]

    @property
    def is_led(self) -> bool:
        return self.leader.mode == Mode.LEAD

    def run(self) -> PartitionHistory:
        self.flow()
        while self.planned and self.planned[0][0] < self.plan.end_ms:
            self.now_ms, _, act = heapq.heappop(self.planned)
            act()
            self.flow()
        for replica in self.replicas.values():
            if replica.mode == Mode.ZOMBIE:
                self.end_zombie(replica, self.plan.end_ms)
        return PartitionHistory(
            topic=self.topic,
            partition=self.partition,
            min_isr=self.min_isr,
            states=tuple(self.states),
            replicas=tuple(self.replicas.values()),
            committed=self.committed,
            elections=tuple(self.elections),
            truncations=tuple(self.truncations),
            zombies=tuple(self.zombies),
            lost_by_epoch=self.lost_by_epoch,
        )

    def later(self, at_ms: int, act: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.planned, (at_ms, self.order, act))

    def in_turn(self, replica: Replica, at_ms: int, act: Callable[[Replica], None]) -> None:
        """Plan something that happens only if the replica does not change its mode before."""
        turn = replica.turn

        def checked() -> None:
            if replica.turn == turn:
                act(replica)

        self.later(at_ms, checked)

    def into(self, replica: Replica, mode: Mode) -> None:
        replica.mode = mode
        replica.turn += 1

    # --- what happens to brokers ---------------------------------------------------------

    def take(self, step: Step) -> None:
        if step.broker is None:
            self.may_be_unclean = True
            self.elect("unclean")
            return
        replica = self.replicas[step.broker]
        match step.action:
            case Action.DIE:
                self.die(replica, step.records)
            case Action.LOST:
                self.lose(replica)
            case Action.START | Action.HEAL | Action.AHEAD:
                self.back(replica, step.action)
            case Action.CUT:
                self.cut(replica, hidden=step.hidden)
            case Action.BEHIND:
                replica.slow = True
                if replica.mode in {Mode.FOLLOW, Mode.CATCH_UP}:
                    self.stop(replica)
            case Action.HAND_OVER if replica.mode == Mode.LEAD:
                self.elect("controlled_shutdown", without=replica)
            case Action.PREFER if self.may_prefer(replica):
                self.elect("preferred", only=replica)
            case _:
                pass

    def may_prefer(self, replica: Replica) -> bool:
        """Tell whether a replica may get the leadership back as the first in the assignment."""
        is_first = replica is next(iter(self.replicas.values()))
        return is_first and replica.mode == Mode.FOLLOW and self.is_led

    def die(self, replica: Replica, records: int) -> None:
        replica.alive = False
        if replica.mode == Mode.LEAD:
            replica.end.set(self.now_ms, replica.end.at(self.now_ms) + records)
            self.lost_ms = self.now_ms
            self.into(replica, Mode.STOP)
        elif replica.mode != Mode.STOP:
            self.stop(replica)

    def cut(self, replica: Replica, *, hidden: bool) -> None:
        replica.reachable = False
        if replica.mode == Mode.LEAD:
            # Clients of a leader that is cut off from brokers alone still reach it.
            self.lost_ms = self.now_ms if hidden else None
            self.into(replica, Mode.ZOMBIE)
        elif replica.mode != Mode.STOP:
            self.stop(replica)

    def lose(self, replica: Replica) -> None:
        """Elect another leader soon: the controller counts the broker as dead."""
        if replica.broker == self.state.leader:
            wait_ms = self.chance.randrange(*ELECT_MS)
            self.later(self.now_ms + wait_ms, lambda: self.elect("offline"))

    def back(self, replica: Replica, action: Action) -> None:
        """Let the replica fetch again, or lead."""
        match action:
            case Action.START:
                replica.alive = True
                for line in replica.counters:
                    line.set(self.now_ms, 0)
            case Action.HEAL:
                replica.reachable = True
            case _:
                replica.slow = False
        if not (replica.alive and replica.reachable) or replica.mode in {Mode.LEAD, Mode.FOLLOW}:
            return
        if replica.broker == self.state.leader:
            if replica.mode == Mode.ZOMBIE:  # it was back before anyone missed it
                self.lost_ms = None
                self.into(replica, Mode.LEAD)
            else:
                self.elect("offline")
            return
        if self.leader.mode == Mode.STOP:
            self.elect("offline")
            if self.leader is replica:
                return
        wait_ms = self.chance.randrange(*RETURN_MS)
        if replica.mode == Mode.ZOMBIE:
            self.in_turn(replica, self.now_ms + wait_ms, self.fetch)
        else:
            if replica.mode != Mode.STOP:
                self.stop(replica)
            self.in_turn(replica, self.now_ms + wait_ms, self.fetch)

    # --- what the replicas do ------------------------------------------------------------

    def stop(self, replica: Replica) -> None:
        """Let the replica no longer fetch; the leader notices later."""
        self.into(replica, Mode.STOP)
        self.await_leaving(replica)

    def await_leaving(self, replica: Replica) -> None:
        """Plan the leader's first check that finds the replica behind for too long."""
        since_ms = replica.caught_up.at(self.now_ms)
        due = max(since_ms + self.plan.lag_time_max_ms + 1, self.now_ms) - self.phase_ms
        check = -(-due // self.check_ms) * self.check_ms + self.phase_ms
        self.in_turn(replica, check, self.leave)

    def leave(self, replica: Replica) -> None:
        behind_ms = self.now_ms - replica.caught_up.at(self.now_ms)
        if self.leader.mode == Mode.LEAD and behind_ms > self.plan.lag_time_max_ms:
            self.change_isr(self.state.isr - {replica.broker})

    def fetch(self, replica: Replica) -> None:
        """Let the replica follow: it cuts its log, and will have all after a while."""
        if replica.slow or not (replica.alive and replica.reachable):
            return
        if replica.mode == Mode.ZOMBIE:
            self.end_zombie(replica, self.now_ms)
        self.into(replica, Mode.CATCH_UP)
        self.truncate(replica)
        replica.target_ms = self.now_ms + self.chance.randrange(*CATCH_UP_MS)
        self.in_turn(replica, replica.target_ms, self.join)

    def join(self, replica: Replica) -> None:
        if self.leader.mode != Mode.LEAD:
            replica.target_ms = self.now_ms + MEMBERS_RETRY_MS
            self.in_turn(replica, replica.target_ms, self.join)
            return
        self.into(replica, Mode.FOLLOW)
        if replica.broker not in self.state.isr:
            self.change_isr(self.state.isr | {replica.broker})

    def truncate(self, replica: Replica) -> None:
        """Cut the log where the first epoch begins that it has no record of."""
        end = replica.end.at(self.now_ms)
        limit = self.log_limit(replica)
        if end <= limit:
            return
        below = replica.watermark.at(self.now_ms) > limit
        replica.end.set(self.now_ms, limit)
        if below:
            replica.watermark.set(self.now_ms, limit)
        self.truncations.append(
            TrueTruncation(
                at_ms=self.now_ms,
                broker=replica.broker,
                leo_from=end,
                leo_to=limit,
                leader_epoch=self.state.epoch,
                below_hw=below,
            )
        )
        for line, more in (
            (replica.truncations, 1),
            (replica.truncated, end - limit),
            (replica.truncated_below, int(below)),
        ):
            line.set(self.now_ms, line.at(self.now_ms) + more)

    def log_limit(self, replica: Replica) -> int:
        """Return where the log of a replica ends at most, to agree with the leader's."""
        later = [start for epoch, start in self.epoch_starts.items() if epoch > replica.log_epoch]
        return min([*later, self.leader.end.at(self.now_ms)])

    def end_zombie(self, replica: Replica, until_ms: int) -> None:
        known = replica.known
        if known is None or known.epoch == self.state.epoch:
            return
        newer = next(state for state in self.states if state.epoch == known.epoch + 1)
        self.zombies.append(
            TrueZombie(
                broker=replica.broker,
                epoch=known.epoch,
                newer_leader=newer.leader,
                newer_epoch=newer.epoch,
                from_ms=newer.since_ms,
                until_ms=until_ms,
            )
        )

    # --- what the controller does --------------------------------------------------------

    def change_isr(self, isr: frozenset[int]) -> None:
        before = self.state.isr
        if isr == before:
            return
        self.store(isr=isr, changed_ms=self.now_ms)
        for line, moved in (
            (self.leader.shrinks, before - isr),
            (self.leader.expands, isr - before),
        ):
            if moved:
                line.set(self.now_ms, line.at(self.now_ms) + 1)

    def store(self, **changes: Any) -> None:
        version = self.state.version + 1
        changed = replace(self.state, at_ms=self.now_ms, version=version, **changes)
        self.states.append(changed)

    def elect(
        self, kind: str, *, only: Replica | None = None, without: Replica | None = None
    ) -> None:
        """Begin a leadership if there is someone who may lead."""
        state, old = self.state, self.leader
        if kind in {"offline", "unclean"} and old.mode == Mode.LEAD:
            return
        able = [
            each
            for each in self.replicas.values()
            if each.alive
            and each.reachable
            and each is not without
            and (only is None or each is only)
        ]
        inside = [each for each in able if each.broker in state.isr]
        if not inside and not (able and self.may_be_unclean):
            return
        if inside:
            new, isr = inside[0], state.isr
            gone = {each.broker for each in self.replicas.values() if each not in able}
            isr = isr - ({old.broker} & gone) if only is None else isr
        else:
            new, isr, kind = able[0], frozenset({able[0].broker}), "unclean"
        self.begin_leadership(new, frozenset(isr), kind)

    def begin_leadership(self, new: Replica, isr: frozenset[int], kind: str) -> None:
        state, old = self.state, self.leader
        self.may_be_unclean = False
        self.elections.append(
            TrueElection(
                at_ms=self.now_ms,
                epoch=state.epoch + 1,
                old_leader=state.leader,
                new_leader=new.broker,
                lost_ms=self.now_ms if self.lost_ms is None else self.lost_ms,
                kind=kind,
            )
        )
        start = new.end.at(self.now_ms)
        committed = self.committed.at(self.now_ms)
        self.store(
            leader=new.broker,
            epoch=state.epoch + 1,
            isr=isr,
            since_ms=self.now_ms,
            changed_ms=self.now_ms,
        )
        if start < committed:
            self.lost_by_epoch[self.state.epoch] = committed - start
            self.committed.set(self.now_ms, start)
        self.epoch_starts[self.state.epoch] = start
        self.lost_ms = None
        self.into(new, Mode.LEAD)
        for replica in self.replicas.values():
            if replica is new:
                continue
            if replica is old and replica.mode == Mode.LEAD:
                self.into(replica, Mode.FOLLOW)
            if replica.mode in {Mode.FOLLOW, Mode.CATCH_UP} and replica.reachable:
                self.truncate(replica)
            elif replica.broker in isr:
                # A new leader gives everyone the whole time.
                replica.caught_up.set(self.now_ms, self.now_ms)
                self.await_leaving(replica)

    # --- the numbers ---------------------------------------------------------------------

    def flow(self) -> None:
        """Let every number go on from now at the pace of the present state."""
        now, leader = self.now_ms, self.leader
        isr = [self.replicas[broker] for broker in sorted(self.state.isr)]
        rate = self.plan.rate if self.is_served else 0
        end = leader.end.at(now)
        leader.end.set(now, end, rise=rate)
        waits = any(each.mode not in {Mode.LEAD, Mode.FOLLOW} for each in isr)
        if self.is_served and not waits:
            self.committed.set(now, end, rise=rate)
        else:
            self.committed.set(now, self.committed.at(now))
        for replica in self.replicas.values():
            self.flow_of(replica, end, rate)
            self.show(replica)

    @property
    def is_served(self) -> bool:
        """Tell whether acks=all is accepted; below min ISR no high watermark rises either."""
        return self.leader.mode == Mode.LEAD and len(self.state.isr) >= self.min_isr

    def flow_of(self, replica: Replica, leaders_end: int, rate: int) -> None:
        now, own = self.now_ms, replica.end.at(self.now_ms)
        seen = min(replica.seen_end.at(now), leaders_end)
        caught_up, written = replica.caught_up.at(now), 0
        is_led = self.leader.mode == Mode.LEAD
        if replica.mode in {Mode.LEAD, Mode.FOLLOW} and is_led:
            written = rate if replica is self.leader else 0
            replica.log_epoch = self.state.epoch
            replica.end.set(now, leaders_end, rise=rate)
            replica.seen_end.set(now, leaders_end, rise=rate)
            replica.caught_up.set(now, now, rise=1, per_ms=1)
            hw = self.committed.pieces[-1]
            replica.watermark.set(now, self.committed.at(now), rise=hw.rise)
        else:
            rise, per_ms = 0, 1000
            if replica.mode == Mode.ZOMBIE:
                written = rise = self.plan.rate // ZOMBIE_SHARE
            if replica.mode == Mode.CATCH_UP and is_led and replica.target_ms > now:
                replica.log_epoch = self.state.epoch
                per_ms = replica.target_ms - now
                rise, seen = leaders_end + rate * per_ms // 1000 - own, own
            replica.end.set(now, own, rise=rise, per_ms=per_ms)
            fetched = rise if replica.mode == Mode.CATCH_UP else 0
            replica.seen_end.set(now, seen, rise=fetched, per_ms=per_ms)
            replica.caught_up.set(now, caught_up)
            replica.watermark.set(now, replica.watermark.at(now))
        replica.produced.set(now, replica.produced.at(now), rise=written)

    def show(self, replica: Replica) -> None:
        """Note what the broker's process shows from now on."""
        if replica.alive and replica.reachable and replica.mode != Mode.ZOMBIE:
            replica.known = self.state
        leads = replica.mode in {Mode.LEAD, Mode.ZOMBIE}
        state = replica.known if replica.alive else None
        if replica.shown and (replica.shown[-1].state, replica.shown[-1].leads) == (state, leads):
            return
        if replica.shown and replica.shown[-1].at_ms == self.now_ms:
            replica.shown.pop()
        replica.shown.append(Shown(at_ms=self.now_ms, state=state, leads=leads))
