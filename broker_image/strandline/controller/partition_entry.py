"""One partition as the active controller knows it: its object, its store call, its requests.

`partition_reconciler` decides when a call begins and what it writes; `partition_table` finds
entries by name and by partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from strandline.backoff import Backoff
from strandline.errors import InvariantViolation
from strandline.model import BrokerId, ElectionKind, PartitionState, StoredPartition

from .elections import STATE_LOST
from .events import IsrChangeRequested
from .write_notices import StatusWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCall:
    """No call is open; decisions rest on the object as it was last read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInFlight:
    """A compare-and-swap of the status is out."""

    request_id: int
    write: StatusWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """A call failed, so a quorum read must follow; write is a write of ours that may be stored."""

    write: StatusWrite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInFlight:
    """A quorum read is out; it shows whether the write that was in doubt is stored."""

    request_id: int
    write: StatusWrite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A call is out about an object that another one has replaced under the same name."""

    request_id: int


StoreCall = NoCall | WriteInFlight | InDoubt | ReadInFlight | Superseded
"""Where the store call of a partition stands; made by `PartitionEntry` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """An AlterPartition that is not answered; read_since: the object was read after it came."""

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
    """The object as last read, and where its store call stands; changed by its own methods only.

        NoCall ------ a status must change ------> WriteInFlight
         | ^ ^                                      |     |
         | | '---------------- OK -----------------'      | conflict or unknown outcome
         | |                                              v
         | '------ OK ------- ReadInFlight <--- turn --- InDoubt <--- any answer --- Superseded
         |                      ^     |                   ^
         '-- a request knows ---'     '------ failed -----'
             more than the object

    Another object under the same name leads to Superseded while a call is open, else to NoCall.
    No call begins before not_before_ms. since_ms is when the partition was last queued.
    """

    stored: StoredPartition
    first_seen_ms: int
    call: StoreCall = NoCall()
    requests: Mapping[BrokerId, PendingRequest] = field(default_factory=dict)
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
        """Return the kind of election that our unanswered write made, if this is its result."""
        match self.call:
            case WriteInFlight(write=write) | InDoubt(write=write) | ReadInFlight(write=write):
                return write.kind if write is not None and write.after == state else None
            case NoCall() | Superseded():
                return None

    # --- the object -----------------------------------------------------------------------

    def adopt(self, partition: StoredPartition) -> bool:
        """Take another version of the object. Returns: False for an older one, which is ignored."""
        known, found = self.stored.state, partition.state
        if known is not None and (found is None or found.partition_epoch < known.partition_epoch):
            return False
        self.stored = partition
        if found is not None and found.reason == STATE_LOST:
            self.state_lost = False
        return True

    def adopt_without_status(self, partition: StoredPartition, now_ms: int) -> None:
        """Take an object that a quorum read showed without the status it had: it is new again."""
        self.stored = partition
        self.first_seen_ms = now_ms

    def replaced_by(self, partition: StoredPartition, now_ms: int) -> PartitionEntry:
        """Return the entry of another object under this name; it inherits what is unanswered."""
        request_id = self.open_request_id
        return PartitionEntry(
            stored=partition,
            first_seen_ms=now_ms,
            call=NoCall() if request_id is None else Superseded(request_id=request_id),
            requests=self.requests,
        )

    def mark_state_lost(self) -> None:
        """Remember that a broker refused this partition as new: it has data of it on disk."""
        self.state_lost = True

    # --- the store call -------------------------------------------------------------------

    def mark_queued(self, now_ms: int) -> None:
        """Remember when the work that comes was first asked for."""
        self.since_ms = now_ms

    def begin_read(self, request_id: int) -> None:
        """Go to ReadInFlight."""
        write = self.call.write if isinstance(self.call, InDoubt) else None
        self._check_call_is_not_open()
        self.call = ReadInFlight(request_id=request_id, write=write)

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
        """Take a successful answer. None: it tells nothing of the present object."""
        call, self.call = self.call, NoCall()
        match call:
            case WriteInFlight(write=write):
                self.failures = 0
                return Finished(entry=self, partition=partition, written=write)
            case ReadInFlight(write=doubted):
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

    def fail_call(self, now_ms: int, retry: Backoff) -> None:
        """Take a conflict or an unknown outcome; a first failed write is read after at once."""
        call, self.failures = self.call, self.failures + 1
        self.call = InDoubt(
            write=call.write if isinstance(call, WriteInFlight | ReadInFlight) else None
        )
        if not isinstance(call, WriteInFlight) or self.failures > 1:
            self.not_before_ms = now_ms + retry.after_ms(self.failures)

    def forgive(self) -> None:
        """Forget former failures: the stored status stands, and nothing else is asked."""
        self.failures = 0

    # --- requests -------------------------------------------------------------------------

    def add_request(self, event: IsrChangeRequested) -> None:
        """Keep an AlterPartition; a later one of the same broker replaces an earlier one."""
        self.requests = {**self.requests, event.broker_id: PendingRequest(event=event)}

    def take_request(self, broker_id: BrokerId) -> IsrChangeRequested:
        """Remove a broker's request, to be answered now."""
        requests = dict(self.requests)
        taken = requests.pop(broker_id)
        self.requests = requests
        return taken.event

    def take_requests(self) -> list[IsrChangeRequested]:
        """Remove all requests, to be answered now, in the order of the brokers."""
        return [self.take_request(broker_id) for broker_id in sorted(self.requests)]
