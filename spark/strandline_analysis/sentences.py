"""What tables say, as sentences: the same ones in a terminal and in a browser.

Called by `report` and `html_report` with plain rows; needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from .html_report.words import Row, clock, counted, span

EVIDENCE_LIMIT: Final = 50
"""So many pieces of evidence, and no more, are kept of one incident."""


def incident_sentence(row: Row) -> str:
    """Return one sentence: when, which broker is at the root, how sure, and by which evidence."""
    start, end = row["start_ms"], row["end_ms"]
    when = f"{clock(start)} to {clock(end)} ({span(end - start)})"
    known = row["root_broker"] is not None and not _are_equal(row)
    sure = f", confidence {row['confidence']:.2f}" if known else ""
    told = "; ".join(evidence_phrases(row["evidence"]))
    if len(row["evidence"]) >= EVIDENCE_LIMIT:
        told += f"; the oldest {EVIDENCE_LIMIT} signs alone are listed"
    concerned = counted(row["partitions"], "partition")
    return f"{when}: {_root(row)}{sure}, {concerned} concerned: {told}."


def evidence_phrases(evidence: Sequence[Row]) -> list[str]:
    """Return a phrase for each kind of evidence, in the order in which they began."""
    by_kind: dict[str, list[Row]] = {}
    for proof in sorted(evidence, key=itemgetter("at_ms")):
        by_kind.setdefault(proof["kind"], []).append(proof)
    return [
        f"{PHRASES.get(kind, _signs)(proofs)} from {clock(proofs[0]['at_ms'])}"
        for kind, proofs in by_kind.items()
    ]


def _root(row: Row) -> str:
    root = row["root_broker"]
    match row["kind"]:
        case "broker" if _are_equal(row):
            return f"several brokers stand out alike, broker {root} the first of them"
        case "broker":
            return f"broker {root} is at the root"
        case "scrape" if root is not None:
            return f"broker {root} alone was not reached by Prometheus"
        case "scrape":
            return "Prometheus did not reach brokers"
        case "network":
            return "brokers were missing alike, as when the network is cut"
        case "controller":
            return "another broker became the controller"
        case _:
            return "no broker stands out"


def _are_equal(row: Row) -> bool:
    """Tell whether another broker stands out as much, as each one does while all are restarted."""
    return bool(row["kind"] == "broker" and round(row["confidence"], 2) == 0)


def _partitions(proofs: Sequence[Row]) -> str:
    return counted(len({(proof["topic"], proof["partition"]) for proof in proofs}), "partition")


def _brokers(proofs: Sequence[Row]) -> str:
    known = sorted({proof["broker"] for proof in proofs if proof["broker"] is not None})
    if not known:
        return "a broker"
    return ("broker " if len(known) == 1 else "brokers ") + ", ".join(map(str, known))


def _signs(proofs: Sequence[Row]) -> str:
    return counted(len(proofs), "sign") + f" of {proofs[0]['kind']}"


PHRASES: Final[dict[str, Callable[[Sequence[Row]], str]]] = {
    "ur": lambda proofs: f"{_partitions(proofs)} under-replicated, without {_brokers(proofs)},",
    "umi": lambda proofs: f"{_partitions(proofs)} below min ISR",
    "stall": lambda proofs: f"{_partitions(proofs)} with a high watermark that stood still",
    "leaderless": lambda proofs: f"{_partitions(proofs)} lost {_brokers(proofs)} as leader",
    "flapping": lambda proofs: f"{_brokers(proofs)} left and came back again and again",
    "down": lambda proofs: f"{_brokers(proofs)} not reached",
    "restart": lambda proofs: f"{_brokers(proofs)} began anew",
    "gap": lambda proofs: f"{_brokers(proofs)} not scraped",
    "controller": lambda proofs: f"{_brokers(proofs)} no longer the controller",
}
"""By kind of evidence: what happened, to be followed by since when."""


WHATIF_CAVEAT: Final = (
    "A replay of what was recorded, and no more: with another setting producers would have waited "
    "less or more, and so written at other times. A dead follower counts as one that fell behind. "
    "Settings shorter than a gap between scrapes are left out, as scrapes would not see them."
)


def whatif_sentences(rows: Sequence[Row], lag_time_max_ms: int) -> list[str]:
    """Return a sentence for each other setting, against the one that was in force."""
    by_setting = {row["setting_ms"]: row for row in rows}
    now = by_setting.get(lag_time_max_ms)
    if now is None:
        return []
    name = "replica.lag.time.max.ms"
    told = [f"{name} was {_short(lag_time_max_ms)}: {_shrinks(now)} by its own rule."]
    for setting, row in sorted(by_setting.items()):
        if row is now:
            continue
        change = row["shrinks_high"] - now["shrinks_high"]
        word = "more" if change > 0 else "less"
        shrinks = f"{counted(abs(change), 'shrink')} {word}" if change else "as many shrinks"
        wait = row["extra_hw_stall_ms"] - now["extra_hw_stall_ms"]
        waits = "" if not wait else f", commits held up {span(abs(wait))} "
        waits += "" if not wait else ("longer" if wait > 0 else "less") + " at most"
        told.append(f"With {name} = {_short(setting)}: {shrinks} ({_shrinks(row)}){waits}.")
    return told


def _shrinks(row: Row) -> str:
    low, high = row["shrinks_low"], row["shrinks_high"]
    return counted(high, "shrink") if low == high else f"{low} to {counted(high, 'shrink')}"


def _short(time_ms: int) -> str:
    return span(time_ms).replace(".0 ", " ")


def by_start(incidents: Sequence[Row]) -> list[Row]:
    """Return incidents in the order in which they began."""
    return sorted(incidents, key=itemgetter("start_ms", "id"))
