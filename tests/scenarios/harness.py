"""A small world for scenarios: several real cores, a scripted controller, held messages.

Every message waits until a command delivers it, so a scenario says exactly who hears what
and when. After every command the world checks invariants that hold in every story: logs
agree where offset and epoch do, and what was acknowledged with acks=all stays where it is
on every later leader, unless the election was said to be unclean.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from strandline.core.effects import (
    Effect,
    PersistState,
    ProposeIsr,
    ReplyFetch,
    ReplyProduce,
    SendFetch,
)
from strandline.core.events import (
    AlterPartitionResponseReceived,
    Event,
    FetchFailed,
    FetchResponseReceived,
    FollowerFetchReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    LogDirectoryLost,
    StatePersisted,
    StopReplicaReceived,
    Ticked,
)
from strandline.core.settings import CoreSettings
from strandline.errors import ErrorCode
from strandline.model import (
    Acks,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    LiveBroker,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicSettings,
)

from .clients import ClientCommands
from .inspection import ANY_FETCH, InspectionCommands
from .scenario_invariants import ScenarioInvariants
from .show import show
from .world_broker import NAME, TP, ScenarioBroker

FOREVER_MS = 10_000_000


class ScenarioWorld(InspectionCommands, ClientCommands):
    """Brokers, the state the controller has committed, and messages on their way."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.brokers: dict[int, ScenarioBroker] = {}
        self.stored: PartitionState
        self.settings = TopicSettings()
        self.fetches: dict[int, SendFetch] = {}
        self.replies: dict[int, deque[FetchResponseReceived]] = {}
        self.proposals: dict[int, list[ProposeIsr]] = {}
        self.produced: dict[int, tuple[list[str], Acks]] = {}
        self.invariants = ScenarioInvariants()
        self.persist_held: dict[int, deque[StatePersisted]] = {}
        self.late: list[AlterPartitionResponseReceived] = []
        self.saved: PartitionState
        self.last_id = 100

    # --- the cluster --------------------------------------------------------------------

    def do_cluster(self, brokers: str, min_isr: str = "1", **settings: str) -> list[str]:
        figures = {
            "fetch_wait_max_ms": FOREVER_MS,
            "fetch_timeout_ms": FOREVER_MS,
            "high_watermark_checkpoint_interval_ms": FOREVER_MS,
            **{key: int(text) for key, text in settings.items()},
        }
        count = int(brokers)
        for broker_id in range(count):
            broker = self.brokers[broker_id] = ScenarioBroker(broker_id, CoreSettings(**figures))
            broker.start(self.now_ms)
        self.stored = PartitionState(
            replicas=tuple(BrokerId(each) for each in range(count)),
            leader=BrokerId(-1),
            leader_epoch=LeaderEpoch(-1),
            partition_epoch=PartitionEpoch(-1),
            isr=(),
            min_insync_replicas=int(min_isr),
            controller_epoch=ControllerEpoch(1),
        )
        return self.do_live(brokers=",".join(map(str, range(count))))

    def do_live(self, brokers: str, to: str | None = None, ce: str = "") -> list[str]:
        live = tuple(
            LiveBroker(
                broker_id=self.brokers[each].broker_id,
                broker_epoch=self.brokers[each].broker_epoch,
                clean_since_epoch=self.brokers[each].clean_since_epoch,
                endpoints=(),
            )
            for each in _ids(brokers)
        )
        epoch = ControllerEpoch(int(ce or self.stored.controller_epoch))
        event = LiveBrokersChanged(controller_epoch=epoch, brokers=live)
        return [line for each in self._alive(to) for line in self._step(each, event)]

    def do_elect(
        self, leader: str, isr: str, to: str | None = None, new: str = "no", unclean: str = "no"
    ) -> list[str]:
        """Commit another leadership and announce it. isr names brokers, `1@2` an old entry."""
        if unclean == "yes":
            self.invariants.acknowledged.clear()
        self._store(leader=BrokerId(int(leader)), isr=self._entries(isr), raise_leader_epoch=1)
        return self.do_announce(to=to, new=new)

    def do_commit(
        self, isr: str, to: str | None = None, min_isr: str = "", replicas: str = ""
    ) -> list[str]:
        """Commit another ISR or assignment under the same leadership and announce it."""
        self.stored = replace(
            self.stored,
            min_insync_replicas=int(min_isr or self.stored.min_insync_replicas),
            replicas=tuple(map(BrokerId, _ids(replicas))) or self.stored.replicas,
        )
        self._store(leader=self.stored.leader, isr=self._entries(isr), raise_leader_epoch=0)
        return self.do_announce(to=to)

    def do_announce(
        self,
        to: str | None = None,
        new: str = "no",
        ce: str = "",
        be: str = "",
        state: str = "stored",
    ) -> list[str]:
        """Send LeaderAndIsr with the stored or the saved state; `to=none` reaches no broker."""
        printed: list[str] = []
        for broker in [] if to == "none" else self._alive(to):
            command = PartitionCommand(
                tp=TP,
                topic_name=NAME,
                state=self.stored if state == "stored" else self.saved,
                settings=self.settings,
                is_new=new == "yes",
            )
            event = LeaderAndIsrReceived(
                request_id=self._next_id(),
                controller_epoch=ControllerEpoch(int(ce or self.stored.controller_epoch)),
                broker_epoch=type(broker.broker_epoch)(int(be or broker.broker_epoch)),
                partitions=(command,),
            )
            printed += self._step(broker, event)
        return printed

    def do_configure(self, segment_bytes: str) -> list[str]:
        """Change the topic's settings; brokers learn of them with the next request."""
        self.settings = replace(self.settings, segment_bytes=int(segment_bytes))
        return []

    def do_save(self) -> list[str]:
        """Remember the stored state, for a controller whose view will be old."""
        self.saved = self.stored
        return []

    def do_delete(self, to: str) -> list[str]:
        printed: list[str] = []
        for broker in self._alive(to):
            event = StopReplicaReceived(
                request_id=self._next_id(),
                controller_epoch=self.stored.controller_epoch,
                broker_epoch=broker.broker_epoch,
                partitions=(TP,),
            )
            printed += self._step(broker, event)
        return printed

    # --- the controller's responses -----------------------------------------------------

    def do_accept(self, broker: str, reply: str = "delivered", nth: str = "-1") -> list[str]:
        """Commit the proposal of a leader, whatever the stored epochs say of it."""
        proposal = self.proposals[int(broker)][int(nth)]
        self._store(leader=self.stored.leader, isr=proposal.isr, raise_leader_epoch=0)
        if reply == "late":
            self.late.append(self._response(proposal.request_id, ErrorCode.NONE, self.stored))
        if reply != "delivered":
            return []
        return self._respond(int(broker), proposal.request_id, ErrorCode.NONE, self.stored)

    def do_refuse(self, broker: str, reply: str = "delivered") -> list[str]:
        """Refuse the proposal of a leader: commit the next epoch with the ISR unchanged."""
        proposal = self.proposals[int(broker)][-1]
        self._store(leader=self.stored.leader, isr=self.stored.isr, raise_leader_epoch=0)
        if reply == "lost":
            return []
        error = ErrorCode.INVALID_UPDATE_VERSION
        return self._respond(int(broker), proposal.request_id, error, self.stored)

    def do_late(self, broker: str) -> list[str]:
        """Deliver the responses that were late, a copy remains under way."""
        return [
            line for event in self.late for line in self._step(self.brokers[int(broker)], event)
        ]

    def do_answer(
        self, broker: str, error: str = "NONE", stored: str = "yes", nth: str = "-1"
    ) -> list[str]:
        """Respond to a proposal without committing anything."""
        proposal = self.proposals[int(broker)][int(nth)]
        state = self.stored if stored == "yes" else None
        return self._respond(int(broker), proposal.request_id, ErrorCode[error], state)

    # --- replication --------------------------------------------------------------------

    def do_fetch(self, by: str) -> list[str]:
        """Deliver the fetch a follower has sent."""
        fetch = self.fetches.pop(int(by))
        return self._deliver_fetch(fetch, self.brokers[int(by)])

    def do_refetch(
        self, by: str, offset: str, le: str, last: str, be: str = "", clean_since: str = ""
    ) -> list[str]:
        """Deliver a fetch made up by hand, as from an earlier process of a follower."""
        follower = self.brokers[int(by)]
        leader = int(self.stored.leader)
        event = FollowerFetchReceived(
            request_id=self._next_id(),
            follower=follower.broker_id,
            broker_epoch=type(follower.broker_epoch)(int(be or follower.broker_epoch)),
            clean_since_epoch=type(follower.broker_epoch)(
                int(clean_since or follower.clean_since_epoch)
            ),
            max_wait_ms=0,
            partitions=(
                replace(
                    ANY_FETCH,
                    fetch_offset=int(offset),
                    leader_epoch=LeaderEpoch(int(le)),
                    last_fetched_epoch=LeaderEpoch(int(last)),
                ),
            ),
        )
        return self._step(self.brokers[leader], event)

    def do_reply(self, to: str, batches: str = "all") -> list[str]:
        """Deliver the oldest response to a follower, or only its first batches."""
        response = self.replies[int(to)].popleft()
        broker = self.brokers[int(to)]
        if batches != "all":
            first = response.partitions[0]
            kept = first.batches[: int(batches)]
            response = replace(response, partitions=(replace(first, batches=kept),))
        return self._step(broker, response)

    def do_sync(self, brokers: str, rounds: str = "20") -> list[str]:
        """Deliver fetches and responses of these followers until every fetch waits."""
        printed: list[str] = []
        for _ in range(int(rounds)):
            moved = False
            for each in _ids(brokers):
                while self.replies.get(each):
                    printed += self.do_reply(to=str(each))
                    moved = True
                if each in self.fetches:
                    printed += self.do_fetch(by=str(each))
                    moved = True
            if not moved:
                return printed
        raise AssertionError("replication does not come to rest")

    def do_lose(self, fetch_of: str) -> list[str]:
        """Break the stream of a follower: its fetch failed."""
        broker = self.brokers[int(fetch_of)]
        fetch = self.fetches.pop(int(fetch_of))
        return self._step(broker, FetchFailed(request_id=fetch.request_id, leader=fetch.leader))

    # --- time, processes, disks ---------------------------------------------------------

    def do_advance(self, ms: str) -> list[str]:
        target_ms, printed = self.now_ms + int(ms), list[str]()
        while True:
            due = [
                (wakeup_ms, broker_id)
                for broker_id, broker in self.brokers.items()
                if broker.alive and (wakeup_ms := broker.replicas.next_wakeup_ms) is not None
            ]
            at_ms, broker_id = min(due, default=(target_ms + 1, -1))
            if at_ms > target_ms:
                self.now_ms = target_ms
                return printed
            self.now_ms = max(self.now_ms, at_ms)
            printed += self._step(self.brokers[broker_id], Ticked())

    def do_kill(self, broker: str) -> list[str]:
        killed = int(broker)
        self.brokers[killed].alive = False
        self.fetches.pop(killed, None)
        self.replies.pop(killed, None)
        self.proposals.pop(killed, None)
        return []

    def do_start(self, broker: str, log: str = "kept", begin: str = "") -> list[str]:
        """Begin a new process: log=kept is a clean start, a number loses what is above it.

        begin is the offset where the log begins from now on: its older segments are deleted.
        """
        started = self.brokers[int(broker)]
        if begin:
            started.disk.begin_at(int(begin))
            self.invariants.forget_below(int(begin))
        if log != "kept":
            started.clean_since_epoch = type(started.broker_epoch)(started.broker_epoch + 1)
            started.disk.cut(int(log))
            if int(log) == 0:
                started.disk = type(started.disk)()
        return self._shown(started, started.start(self.now_ms))

    def do_hold_persist(self, broker: str) -> list[str]:
        """Let the state file of a broker be slow from now on."""
        self.persist_held[int(broker)] = deque()
        return []

    def do_persist(self, broker: str) -> list[str]:
        """Finish the oldest write of a slow state file."""
        return self._step(self.brokers[int(broker)], self.persist_held[int(broker)].popleft())

    def do_lose_disk(self, broker: str) -> list[str]:
        return self._step(self.brokers[int(broker)], LogDirectoryLost(reason="read only"))

    def check(self) -> None:
        """Fail if an invariant of every story is broken."""
        self.invariants.check(self.brokers, self.stored)

    # --- within -------------------------------------------------------------------------

    def _next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def _alive(self, to: str | None) -> list[ScenarioBroker]:
        wanted = list(self.brokers) if to is None else _ids(to)
        return [self.brokers[each] for each in wanted if self.brokers[each].alive]

    def _entries(self, text: str) -> tuple[IsrEntry, ...]:
        entries = []
        for each in text.split(","):
            broker, _, epoch = each.partition("@")
            present = self.brokers[int(broker)].broker_epoch
            entries.append(
                IsrEntry(
                    broker_id=BrokerId(int(broker)),
                    broker_epoch=type(present)(int(epoch or present)),
                )
            )
        return tuple(entries)

    def _store(
        self, *, leader: BrokerId, isr: tuple[IsrEntry, ...], raise_leader_epoch: int
    ) -> None:
        self.stored = replace(
            self.stored,
            leader=leader,
            isr=isr,
            leader_epoch=LeaderEpoch(self.stored.leader_epoch + raise_leader_epoch),
            partition_epoch=PartitionEpoch(self.stored.partition_epoch + 1),
        )

    def _respond(
        self, broker: int, request_id: int, error: ErrorCode, stored: PartitionState | None
    ) -> list[str]:
        return self._step(self.brokers[broker], self._response(request_id, error, stored))

    def _response(
        self, request_id: int, error: ErrorCode, stored: PartitionState | None
    ) -> AlterPartitionResponseReceived:
        return AlterPartitionResponseReceived(
            request_id=request_id, tp=TP, error=error, stored=stored
        )

    def _deliver_fetch(self, fetch: SendFetch, follower: ScenarioBroker) -> list[str]:
        event = FollowerFetchReceived(
            request_id=fetch.request_id,
            follower=follower.broker_id,
            broker_epoch=follower.broker_epoch,
            clean_since_epoch=follower.clean_since_epoch,
            max_wait_ms=fetch.max_wait_ms,
            partitions=fetch.partitions,
        )
        leader = self.brokers[int(fetch.leader)]
        if not leader.alive:
            return self._step(
                follower, FetchFailed(request_id=fetch.request_id, leader=fetch.leader)
            )
        return self._step(leader, event)

    def _step(self, broker: ScenarioBroker, event: Event) -> list[str]:
        return self._shown(broker, broker.step(event, self.now_ms))

    def _shown(self, broker: ScenarioBroker, effects: list[Effect]) -> list[str]:
        printed: list[str] = []
        for effect in effects:
            line = show(int(broker.broker_id), effect)
            if line is not None:
                printed.append(line)
            printed += self._carry(broker, effect)
        return printed

    def _carry(self, broker: ScenarioBroker, effect: Effect) -> list[str]:
        """Put what was sent where a later command finds it."""
        me = int(broker.broker_id)
        match effect:
            case SendFetch():
                self.fetches[me] = effect
            case ReplyFetch():
                self._carry_reply(broker, effect)
            case ProposeIsr():
                self.proposals.setdefault(me, []).append(effect)
            case ReplyProduce(request_id=request_id, error=error, base_offset=base):
                names, acks = self.produced[request_id]
                if error is ErrorCode.NONE and acks is Acks.ALL:
                    self.invariants.acknowledged.update(enumerate(names, start=base))
            case PersistState(token=token):
                event = StatePersisted(token=token)
                if me in self.persist_held:
                    self.persist_held[me].append(event)
                else:
                    return self._step(broker, event)
            case _:
                pass
        return []

    def _carry_reply(self, broker: ScenarioBroker, effect: ReplyFetch) -> None:
        follower = int(effect.follower)
        if not self.brokers[follower].alive:
            return
        partitions = tuple(broker.fetched(read) for read in effect.partitions)
        response = FetchResponseReceived(
            request_id=effect.request_id, leader=broker.broker_id, partitions=partitions
        )
        self.replies.setdefault(follower, deque()).append(response)


def _ids(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]
