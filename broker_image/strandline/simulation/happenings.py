"""What really happened in a schedule, by kind: a fault that never comes to pass proves nothing.

A plan only wishes: a cut may fall where nobody speaks, power may fail where nothing is
unflushed. So each kind is counted where it takes effect.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

from .plan import FaultKind


class Happening(Enum):
    """Mishaps that no single fault of a plan stands for; values are the words of the table."""

    MESSAGE_LOST = "messages lost"
    MESSAGE_REPEATED = "messages that came twice"
    MESSAGE_SLOW = "messages that were slow"
    CALL_UNANSWERED = "store calls without an answer"
    WRITE_REFUSED = "store writes refused by their version"
    LIST_STALE = "lists that were old when they arrived"
    WATCH_OVERTAKEN = "watch events overtaken by later ones"
    TAIL_LOST = "crashes that cut the end of a log"


Happened = Counter[Happening | FaultKind]
