"""A picture of each table, by the code that draws the report where it draws that table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from strandline_analysis.html_report.chart import WIDTH, colour_of
from strandline_analysis.html_report.curves import incident_curves
from strandline_analysis.html_report.failovers import failover_times
from strandline_analysis.html_report.incidents import incident_list
from strandline_analysis.html_report.isr_map import isr_map
from strandline_analysis.html_report.leaders import leader_lines
from strandline_analysis.html_report.markup import Element, element, number, text_of
from strandline_analysis.html_report.page import STYLE
from strandline_analysis.html_report.slo import slo_budget
from strandline_analysis.html_report.whatif import whatif_curve
from strandline_analysis.html_report.words import partition_of

from .example import PLAN, WINDOW, Tables, plan_of, window_of
from .shapes import Row, counts, lanes, minutes

Key = Sequence[tuple[str, str]]
"""Looks and what they mean."""
Picture = tuple[Element, Key]

NAMESPACE: Final = "http://www.w3.org/2000/svg"
KEY_HEIGHT: Final = 30.0
MARGIN: Final = 10.0
RULES: Final = (
    *(":root", "  --", "@media (prefers", ".grid", ".tick", ".lane", ".b", ".out0", ".out2"),
    *("rect.unknown", ".incident.none", ".sign", ".title", ".curve", ".range", ".during"),
)
"""Begins of the lines of the report's style sheet that a picture needs."""
OWN_RULES: Final = (
    '.chart { font: 12.5px system-ui, "DejaVu Sans", sans-serif; }\n'
    ".paper { fill: var(--paper); } .told { fill: var(--ink); }\n"
)
"""A picture is shown smaller than the page, and on a page of any colour."""
BROKERS: Final = range(PLAN.brokers)
PARTITIONS: Final = [f"{topic}-{number}" for topic, number in PLAN.subjects()]
PODS: Final = [f"{PLAN.cluster}-{broker}" for broker in BROKERS]
OF_BROKERS: Final = [(colour_of(broker), f"broker {broker}") for broker in BROKERS]
OUT: Final = [
    *[("out0", "all in sync"), ("out1", "one out"), ("out2", "two out")],
    ("unknown", "not known"),
]


def svg_of(name: str, tables: Tables) -> str:
    """Return the picture of a table as a file that needs no other one."""
    inner, key = PICTURES[name](tables)
    label = next(str(child.children[0]) for child in inner.children if isinstance(child, Element))
    box = dict(inner.attributes)["viewBox"]
    height = float(box.split()[3]) + KEY_HEIGHT + 2 * MARGIN
    rules = STYLE.read_text(encoding="utf-8").splitlines()
    style = "\n".join(rule for rule in rules if rule.startswith(RULES))
    root = element(
        "svg",
        element("title", label),
        element("style", f"{style}\n{OWN_RULES}"),
        element("rect", width="100%", height="100%", class_="paper"),
        _key(key),
        element("g", *inner.children[1:], transform=f"translate(0 {KEY_HEIGHT + MARGIN:g})"),
        xmlns=NAMESPACE,
        viewBox=f"0 0 {WIDTH:g} {number(height)}",
        role="img",
        class_="chart",
    )
    return text_of(root) + "\n"


def _key(key: Key) -> Element:
    """Return a line that says what the colours mean."""
    x, made = MARGIN, []
    for look, meaning in key:
        place = {"x": x, "y": MARGIN, "width": 14, "height": 14, "rx": 2}
        made.append(element("rect", class_=look, **place))
        made.append(element("text", meaning, x=x + 20, y=MARGIN + 12, class_="told"))
        x += 42 + 7.2 * len(meaning)
    return element("g", *made)


def _first_drawing(parts: Sequence[Element]) -> Element:
    return next(part for part in parts if part.tag == "svg")


def _episodes(table: str, look: str, meaning: str) -> Callable[[Tables], Picture]:
    def picture(tables: Tables) -> Picture:
        drawn = lanes(
            tables[table],
            window_of(table),
            label=f"{table} over time",
            names=[f"{topic}-{number}" for topic, number in plan_of(table).subjects()],
            name=partition_of,
            look=lambda _: look,
        )
        return drawn, [(look, meaning)]

    return picture


def _sizes(tables: Tables) -> Picture:
    def look(row: Row) -> str:
        return "unknown" if row["isr_size"] is None else f"out{row['replicas'] - row['isr_size']}"

    drawn = lanes(
        tables["isr_size_intervals"],
        WINDOW,
        label="Sizes of ISRs over time",
        names=PARTITIONS,
        name=partition_of,
        look=look,
    )
    return drawn, OUT


def _of_brokers(
    table: str, column: str, *, start: str = "start_ms", end: str = "end_ms"
) -> Callable[[Tables], Picture]:
    """Return what draws a lane for each partition, in the colours of brokers."""

    def picture(tables: Tables) -> Picture:
        drawn = lanes(
            tables[table],
            window_of(table),
            label=f"{table} over time",
            names=[f"{topic}-{number}" for topic, number in plan_of(table).subjects()],
            name=partition_of,
            look=lambda row: "unknown" if row[column] is None else colour_of(row[column]),
            start=start,
            end=end,
        )
        return drawn, [*OF_BROKERS, ("unknown", "no broker is named")]

    return picture


def _hw_lag(tables: Tables) -> Picture:
    series = [
        (look, [row for row in tables["hw_lag"] if partition_of(row) == name])
        for look, name in zip(("b0", "b1"), PARTITIONS, strict=True)
    ]
    drawn = minutes(series, WINDOW, label="Records not yet committed, by minute", value="lag_max")
    return drawn, [(look, f"lag_max of {name}") for look, (_, name) in _looks(PARTITIONS)]


def _looks(names: Sequence[str]) -> list[tuple[str, tuple[int, str]]]:
    return list(zip(("b0", "b1", "b5"), enumerate(names), strict=False))


def _follower_lag(tables: Tables) -> Picture:
    rows = [row for row in tables["follower_lag"] if partition_of(row) == PARTITIONS[0]]
    looks = ("b0", "b1", "b5")
    series = [
        (looks[broker], [row for row in rows if row["replica"] == broker]) for broker in BROKERS
    ]
    label = f"How far followers of {PARTITIONS[0]} were behind, by minute"
    drawn = minutes(series, WINDOW, label=label, value="lag_max")
    return drawn, [
        (looks[broker], f"lag_max of follower {broker} of {PARTITIONS[0]}") for broker in BROKERS
    ]


def _throughput(tables: Tables) -> Picture:
    rows = [row for row in tables["replication_throughput"] if row["flow"] == "produced"]
    looks, topic = ("b0", "b1", "b5"), rows[0]["topic"]
    series = [
        (looks[broker], [row for row in rows if (row["broker"], row["topic"]) == (broker, topic)])
        for broker in BROKERS
    ]
    drawn = minutes(series, WINDOW, label=f"Bytes produced to {topic}, by minute", value="bytes")
    return drawn, [(looks[broker], f"bytes that broker {broker} took") for broker in BROKERS]


def _churn(tables: Tables) -> Picture:
    rows = [
        (
            f"broker {broker}",
            [
                (look, sum(row[what] for row in tables["isr_churn"] if row["broker"] == broker))
                for look, what in (("out2", "shrinks"), ("out0", "expands"))
            ],
        )
        for broker in BROKERS
    ]
    drawn = counts(rows, label="How often brokers left and rejoined ISRs")
    return drawn, [("out2", "times removed"), ("out0", "times added again")]


def _missed(tables: Tables) -> Picture:
    rows = [
        (
            f"{partition_of(row)} by {row['broker']}",
            [("out0", row["seen_shrinks"]), ("out2", row["missed_shrinks"])],
        )
        for row in sorted(
            tables["missed_edges"], key=lambda row: (partition_of(row), row["broker"])
        )
    ]
    drawn = counts(rows, label="Shrinks that scrapes saw, and those between scrapes")
    return drawn, [("out0", "shrinks seen"), ("out2", "shrinks between two scrapes")]


def _controllers(tables: Tables) -> Picture:
    rows = sorted(tables["controller_elections"], key=lambda row: int(row["at_ms"]))
    terms: list[dict[str, Any]] = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        if not terms:
            first = {"start_ms": WINDOW.start_ms, "end_ms": row["at_ms"]}
            terms.append({**first, "broker": row["old_controller"]})
        until = WINDOW.end_ms if following is None else following["at_ms"]
        terms.append({"start_ms": row["at_ms"], "end_ms": until, "broker": row["new_controller"]})
    drawn = lanes(
        terms,
        WINDOW,
        label="Controllers over time",
        names=["controller"],
        name=lambda _: "controller",
        look=lambda row: "unknown" if row["broker"] is None else colour_of(row["broker"]),
    )
    return drawn, [*OF_BROKERS, ("unknown", "not known")]


def _at_risk(tables: Tables) -> Picture:
    def look(row: Row) -> str:
        return "out3" if row["lost"] else "out1" if row["recovered"] else "unknown"

    def safe(row: Row) -> int:
        return int(row["start_ms"] - row["start_err_ms"] + row["exposed_high_ms"])

    drawn = lanes(
        [{**row, "end_ms": safe(row)} for row in tables["data_at_risk"]],
        WINDOW,
        label="Times in which acknowledged records were on one broker alone",
        names=PARTITIONS,
        name=partition_of,
        look=look,
    )
    return drawn, [
        *[("out1", "copied in time"), ("out3", "some were lost")],
        ("unknown", "not known to be copied"),
    ]


def _coverage(tables: Tables) -> Picture:
    looks = {"gap": "unknown", "down": "out2", "restart": "b0"}
    drawn = lanes(
        tables["coverage"],
        WINDOW,
        label="Times in which a pod showed nothing",
        names=PODS,
        name=lambda row: str(row["pod"]),
        look=lambda row: looks[row["kind"]],
    )
    return drawn, [(look, kind) for kind, look in looks.items()]


def _restarts(tables: Tables) -> Picture:
    drawn = lanes(
        tables["restarts"],
        WINDOW,
        label="When brokers began anew",
        names=PODS,
        name=lambda row: str(row["pod"]),
        look=lambda row: "out3" if row["unclean"] else "b0",
        start="at_ms",
        end="at_ms",
    )
    return drawn, [("b0", "began anew"), ("out3", "began on logs that may lack their ends")]


def _slo(tables: Tables) -> Picture:
    drawn = _first_drawing(slo_budget(tables["slo"]))
    return drawn, [("b0", "used part of the budget"), ("out0", "left"), ("out2", "overdrawn")]


PICTURES: Final[dict[str, Callable[[Tables], Picture]]] = {
    "isr_intervals": lambda tables: (
        _first_drawing(isr_map(tables["isr_intervals"], WINDOW)),
        OUT,
    ),
    "isr_size_intervals": _sizes,
    "ur_episodes": _episodes("ur_episodes", "out1", "under-replicated"),
    "umi_episodes": _episodes("umi_episodes", "out3", "fewer in sync than min ISR"),
    "at_min_isr": _episodes("at_min_isr", "out2", "exactly min ISR in sync"),
    "hw_lag": _hw_lag,
    "follower_lag": _follower_lag,
    "hw_stalls": _of_brokers("hw_stalls", "culprit"),
    "hw_regressions": _of_brokers("hw_regressions", "broker", start="at_ms", end="at_ms"),
    "isr_churn": _churn,
    "flapping": _of_brokers("flapping", "replica"),
    "missed_edges": _missed,
    "elections": lambda tables: (
        _first_drawing(leader_lines(tables["elections"], WINDOW)),
        OF_BROKERS,
    ),
    "failover_quantiles": lambda tables: (
        _first_drawing(failover_times(tables["elections"], tables["failover_quantiles"])),
        [("b0", "one election: between its low and its high bound")],
    ),
    "controller_elections": _controllers,
    "zombie_leaders": _of_brokers("zombie_leaders", "broker"),
    "replication_throughput": _throughput,
    "truncations": _of_brokers("truncations", "broker", start="at_ms", end="at_ms"),
    "data_at_risk": _at_risk,
    "incidents": lambda tables: (
        _first_drawing(incident_list(tables["incidents"], WINDOW)),
        [*OF_BROKERS, ("incident none", "no broker is named")],
    ),
    "incident_curves": lambda tables: (
        _first_drawing(incident_curves(tables["incident_curves"], tables["incidents"], WINDOW)),
        [("b1", "log end"), ("b0", "high watermark"), ("b5", "between them")],
    ),
    "lagtime_whatif": lambda tables: (
        _first_drawing(whatif_curve(tables["lagtime_whatif"], WINDOW.lag_time_max_ms)),
        [("b0", "shrinks"), ("b5", "longer waits of commits")],
    ),
    "slo": _slo,
    "coverage": _coverage,
    "restarts": _restarts,
}
"""By table: its drawing, and what its colours mean."""
