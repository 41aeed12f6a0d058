"""Planted bugs of fetches that tell their changes alone (ADR 0067); see `mutants`."""

from __future__ import annotations

from strandline.core.fetch_changes import FetchChanges
from strandline.core.leader import LeaderReplica
from strandline_simulation.invariants import Invariant

from .mutants import Mutant

LEADER_LOOKS_NO_MORE = Mutant(
    "a leader that never looks at a settled partition again",
    LeaderReplica,
    "unsettle_followers",
    lambda _: None,
    Invariant.EVERYTHING_HEALS,
)
CHANGES_OF_ANY_FETCH = Mutant(
    "changes taken for those since the last fetch that arrived",
    FetchChanges,
    "follows",
    lambda *_: True,
    Invariant.EVERYTHING_HEALS,
)

FETCH_MUTANTS = (LEADER_LOOKS_NO_MORE, CHANGES_OF_ANY_FETCH)
"""Random search finds all of them."""
