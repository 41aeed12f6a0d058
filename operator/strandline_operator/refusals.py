"""Which failed actions become the condition Reconciled=False, and under which reason.

Pure; called by `reconcile` after a failed action. A refusal by the API server counts at once: it is
about the request. A conflict, a silence or an error of the API server counts once the same object
failed several times in a row: the first ones mostly heal themselves.
"""

from __future__ import annotations

from typing import Final

from strandline.errors import (
    CoordinationError,
    StoreConflict,
    StoreForbidden,
    StoreNotFound,
    StoreRefused,
)

from .actions import Action, GrowClaim
from .apply import PartitionNotCreated
from .conditions import VOLUMES_CANNOT_GROW, Readiness

FAILURES_TOLD: Final = 3
"""Failed passes in a row after which any failure is told."""
REFUSALS: Final[dict[type[CoordinationError], str]] = {
    StoreForbidden: "Forbidden",
    StoreRefused: "Refused",
    StoreNotFound: "NotFound",
}


def refusal_of(action: Action, error: CoordinationError, failures: int) -> Readiness | None:
    """Return what to tell people of a failed action, None if it is not worth a word yet.

    failures counts the failed passes in a row, this one included.
    """
    cause = error.cause if isinstance(error, PartitionNotCreated) else error
    reason = REFUSALS.get(type(cause), "")
    if not reason and failures < FAILURES_TOLD:
        return None
    if not reason:
        reason = "Conflicting" if isinstance(cause, StoreConflict) else "ApiServerFails"
    message = f"could not {action}: {error}"
    if isinstance(action, GrowClaim) and isinstance(cause, (StoreForbidden, StoreRefused)):
        # The API server knows the class, and whether a quota is in the way; the operator does not.
        reason = VOLUMES_CANNOT_GROW
        message += (
            f". Set allowVolumeExpansion: true on StorageClass {action.storage_class or '(none)'} "
            "if its driver can expand volumes, or do what the sentence says; or, if no volume "
            f"has grown yet, set spec.storage.size back to {action.former}"
        )
    return Readiness(reason=reason, message=message, refused=True)
