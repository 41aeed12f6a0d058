"""What a candidate finds out about a holder that does not renew the controller Lease.

Used by `controller_election`. A frozen process renews no Lease and responds to no probe. The
candidate probes it shortly before the Lease runs out, so that a new controller need not wait for a
session timeout of its own (ADR 0031). The silence counts only if the Lease is taken at the first
try: a candidate that could not read the store may have missed renewals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from strandline.model import HolderIdentity, LeaseRecord

from .effects import ProbeLeaseHolder
from .events import LeaseHolderProbed, ProbeVerdict
from .lease_observation import HolderSilent


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentHolder:
    """A process that renewed the Lease at heard_ms for the last time; verdict is of one probe."""

    identity: HolderIdentity
    heard_ms: int
    request_id: int
    verdict: ProbeVerdict | None = None


class HolderSilence:
    """The silence of the present holder; changed by its own methods alone."""

    def __init__(self, *, probe_deadline_ms: int) -> None:
        self._probe_deadline_ms = probe_deadline_ms
        self._found: SilentHolder | None = None

    @property
    def proved(self) -> SilentHolder | None:
        """The holder that did not answer its probe, None if no silence is known."""
        found = self._found
        is_proved = found is not None and found.verdict is ProbeVerdict.NO_ANSWER
        return found if is_proved else None

    def probe(self, silent: HolderSilent, request_id: int) -> ProbeLeaseHolder:
        """Ask the process that no longer renews the Lease whether it lives."""
        identity = silent.identity
        self._found = SilentHolder(
            identity=identity, heard_ms=silent.heard_ms, request_id=request_id
        )
        return ProbeLeaseHolder(
            request_id=request_id,
            broker_id=identity.broker_id,
            incarnation=identity.incarnation,
            deadline_ms=self._probe_deadline_ms,
        )

    def on_probed(self, event: LeaseHolderProbed) -> None:
        """Keep the verdict of the probe that is out."""
        found = self._found
        if found is not None and found.request_id == event.request_id:
            self._found = replace(found, verdict=event.verdict)

    def on_may_take(self, lease: LeaseRecord, *, changed_ms: int) -> None:
        """Forget the silence of another holder, or from before a renewal."""
        found = self._found
        if found is None:
            return
        if (str(found.identity), found.heard_ms) != (lease.holder_identity, changed_ms):
            self._found = None

    def forget(self) -> None:
        """Forget it: the Lease was not taken when it ran out."""
        self._found = None
