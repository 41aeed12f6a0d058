"""One partition as the active controller knows it: its object, its store call, its requests.

`partition_reconciler` decides when a call begins and what it writes; `partition_table` finds
entries by name and by partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from strandline.backoff import Backoff
from strandline.errors import InvariantViolation
from strandline.model import STATE_LOST, BrokerId, ElectionKind, PartitionState, StoredPartition

from .events import IsrChangeRequested
from .rebuild import KnownEpochs, is_behind
from .write_notices import StatusWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCall:
    """No call is open; decisions rest on the object as it was last read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInFlight:
    """A compare-and-swap of the status is out.

    doubted: meanwhile something showed another status than the known one; the response may be older
    than that, so a read follows.
    """

    request_id: int
    write: StatusWrite
    doubted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """A call failed, and a quorum read must follow; write is ours, and may be stored."""

    write: StatusWrite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInFlight:
    """A quorum read is out; it shows whether the write that was in doubt is stored.

    accepted and generation were known before the read: a response below one of them shows that the
    store went back. doubted as in WriteInFlight.
    """

    request_id: int
    write: StatusWrite | None
    accepted: KnownEpochs
    generation: int = 0
    doubted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A call is out about a former object; another one has its name now."""

    request_id: int


StoreCall = NoCall | WriteInFlight | InDoubt | ReadInFlight | Superseded
"""Where the store call of a partition stands; `PartitionEntry` alone makes these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """An AlterPartition without a response; read_since: a read of the object followed it."""

    event: IsrChangeRequested
    read_since: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A store call came back: what is stored (None: gone), and our write that it proves."""

    entry: PartitionEntry
    partition: StoredPartition | None
    written: StatusWrite | None


@dataclass(slots=True, kw_only=True)
class PartitionEntry:
    """The object as last read, and where its store call stands; changed by its own methods alone.

        NoCall ------ a status must change ------> WriteInFlight
         | ^ ^                                      |     |
         | | '---------------- OK -----------------'      | conflict or unknown outcome
         | |                                              v
         | '------ OK ------- ReadInFlight <--- turn --- InDoubt <--- any answer --- Superseded
         |                      ^     |                   ^
         '-- a request knows ---'     '------ failed -----'
         |   more than the object                       ^
         '-------- a watch shows no status -------------'

    A doubt during a call leads to InDoubt behind it. Another object under the same name leads to
    Superseded while a call is open, else to NoCall.
    No call begins before not_before_ms. since_ms is when the partition was last queued. on_stored
    gets each version of the object together with the one that it replaces.
    """

    stored: StoredPartition
    first_seen_ms: int
    on_stored: Callable[[StoredPartition, StoredPartition], None] = lambda _before, _after: None
    call: StoreCall = NoCall()
    requests: dict[BrokerId, PendingRequest] = field(default_factory=dict)
    state_lost: bool = False
    failures: int = 0
    not_before_ms: int = 0
    since_ms: int = 0

    @property
    def open_request_id(self) -> int | None:
        """The id of the call that is out, None without one."""
        match self.call:
            case WriteInFlight() | ReadInFlight() | Superseded():
                return self.call.request_id
            case NoCall() | InDoubt():
                return None

    def kind_of(self, state: PartitionState | None) -> ElectionKind | None:
        """Return the kind of election of our write in flight, if this state is its result."""
        match self.call:
            case WriteInFlight(write=write) | InDoubt(write=write) | ReadInFlight(write=write):
                return write.kind if write is not None and write.after == state else None
            case NoCall() | Superseded():
                return None

    def is_known(self, partition: StoredPartition) -> bool:
        """Tell whether this very version of the object was adopted and is not doubted since."""
        return self.stored == partition and partition.state is not None and not self.state_lost

    def adopt(self, partition: StoredPartition) -> bool:
        """Take another version of the object. Returns: False for an older one."""
        known, found = self.stored.state, partition.state
        if known is not None and (found is None or found.partition_epoch < known.partition_epoch):
            return False
        if known == found and partition.generation < self.stored.generation:
            return False
        self._take(partition)
        if found is not None and found.reason == STATE_LOST:
            self.state_lost = False
        return True

    def doubt_status(self) -> None:
        """Let a read follow, after an open call: the stored status may not be the known one."""
        match self.call:
            case NoCall():
                self.call = InDoubt(write=None)
            case WriteInFlight() | ReadInFlight():
                self.call = replace(self.call, doubted=True)
            case InDoubt() | Superseded():
                pass

    def adopt_without_status(self, partition: StoredPartition, now_ms: int) -> None:
        """Take an object that lost its status, as a quorum read showed: it is new again."""
        self._take(partition)
        self.first_seen_ms = now_ms

    def _take(self, partition: StoredPartition) -> None:
        before, self.stored = self.stored, partition
        self.on_stored(before, partition)

    def replaced_by(self, partition: StoredPartition, now_ms: int) -> PartitionEntry:
        """Return the entry of another object under this name; it inherits requests and call."""
        request_id = self.open_request_id
        return PartitionEntry(
            stored=partition,
            first_seen_ms=now_ms,
            on_stored=self.on_stored,
            call=NoCall() if request_id is None else Superseded(request_id=request_id),
            requests=self.requests,
        )

    def mark_state_lost(self) -> None:
        """Remember that a broker refused this partition as new, for it has its data on disk."""
        self.state_lost = True

    def mark_queued(self, now_ms: int) -> None:
        """Remember when the partition was queued."""
        self.since_ms = now_ms

    def begin_read(self, request_id: int, accepted: KnownEpochs) -> None:
        """Go to ReadInFlight."""
        write = self.call.write if isinstance(self.call, InDoubt) else None
        self._check_call_is_not_open()
        self.call = ReadInFlight(
            request_id=request_id,
            write=write,
            accepted=accepted,
            generation=self.stored.generation,
        )

    def begin_write(self, request_id: int, write: StatusWrite) -> None:
        """Go to WriteInFlight."""
        self._check_call_is_not_open()
        self.call = WriteInFlight(request_id=request_id, write=write)

    def _check_call_is_not_open(self) -> None:
        if self.open_request_id is not None:
            raise InvariantViolation(
                "one store call of a partition at a time", name=self.stored.name, call=self.call
            )

    def end_call(self, partition: StoredPartition | None) -> Finished | None:
        """Take a success. None: the response is about a former object."""
        call, self.call = self.call, NoCall()
        if isinstance(call, WriteInFlight | ReadInFlight) and call.doubted:
            self.call = InDoubt(write=None)
        match call:
            case WriteInFlight(write=write):
                self.failures = 0
                return Finished(entry=self, partition=partition, written=write)
            case ReadInFlight(write=doubted):
                self._judge_read(partition, call)
                self.requests = {
                    broker_id: replace(request, read_since=True)
                    for broker_id, request in self.requests.items()
                }
                stored = None if partition is None else partition.state
                if doubted is None or doubted.after != stored:
                    return Finished(entry=self, partition=partition, written=None)
                self.failures = 0
                return Finished(entry=self, partition=partition, written=doubted)
            case _:
                self.call = InDoubt(write=None)
                return None

    def _judge_read(self, partition: StoredPartition | None, read: ReadInFlight) -> None:
        """Take a state for lost that a quorum read shows below what brokers accepted (ADR 0029)."""
        if partition is None or partition.tp != self.stored.tp:
            return
        if partition.generation < read.generation and partition.state == self.stored.state:
            self._take(partition)
        if partition.state is not None and is_behind(partition.state, read.accepted):
            self._take(partition)
            self.state_lost = True

    def fail_call(self, now_ms: int, retry: Backoff) -> None:
        """Take a conflict or an unknown outcome; after a first failed write, read at once."""
        call, self.failures = self.call, self.failures + 1
        self.call = InDoubt(
            write=call.write if isinstance(call, WriteInFlight | ReadInFlight) else None
        )
        if not isinstance(call, WriteInFlight) or self.failures > 1:
            self.not_before_ms = now_ms + retry.after_ms(self.failures)

    def forgive(self) -> None:
        """Forget former failures: the stored status stands, and no request waits."""
        self.failures = 0

    def add_request(self, event: IsrChangeRequested) -> bool:
        """Keep an AlterPartition; it replaces an earlier one of the same broker.

        Returns: whether members shall leave, for whom acknowledgements may wait
        """
        self.requests[event.broker_id] = PendingRequest(event=event)
        state = self.stored.state
        return state is not None and not set(state.isr) <= set(event.isr)

    def take_request(self, broker_id: BrokerId) -> IsrChangeRequested:
        """Remove a broker's request, for a response now."""
        return self.requests.pop(broker_id).event

    def take_requests(self) -> list[IsrChangeRequested]:
        """Remove all requests, for responses now, in the order of the brokers."""
        return [self.take_request(broker_id) for broker_id in sorted(self.requests)]
