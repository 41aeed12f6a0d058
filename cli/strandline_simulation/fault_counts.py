"""Counts the faults that took effect, by kind: a fault without effect proves nothing.

A planned fault may miss: a cut may fall where no message travels, power may fail where all is
flushed. So each kind is counted where it takes effect.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum


class Anomaly(Enum):
    """What goes wrong without a planned fault of its own; values are the words of the table."""

    MESSAGE_LOST = "messages lost"
    MESSAGE_REPEATED = "messages that came twice"
    MESSAGE_SLOW = "messages that were slow"
    CALL_UNANSWERED = "store calls without an answer"
    WRITE_REFUSED = "store writes refused by their version"
    LIST_STALE = "lists that were old when they arrived"
    WATCH_OVERTAKEN = "watch events overtaken by later ones"
    TAIL_LOST = "crashes that cut the end of a log"


FaultCounts = Counter[Anomaly | str]
"""Planned faults count under the word of their kind."""
