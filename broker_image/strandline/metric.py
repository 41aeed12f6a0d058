"""The shape of a metric's row: its name, type, labels, who exports it, and Kafka's own name for it.

`names` lists the rows. Knows nothing else of the project.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MetricKind(Enum):
    """The metric types of Prometheus that we use; values are Prometheus's words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Exporter(Enum):
    """Who exports a metric; on the others it is absent, not zero."""

    REPLICA = "every replica of a partition"
    LEADER = "the leader of a partition"
    BROKER = "every broker"
    CONTROLLER = "the broker that is the controller"
    OPERATOR = "the operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the list; kafka is the MBean of the same meaning, "" where Kafka has none."""

    name: str
    kind: MetricKind
    exporter: Exporter
    help: str
    labels: tuple[str, ...] = ()
    kafka: str = ""

    @property
    def documentation(self) -> str:
        """The help text on the wire: help, then Kafka's metric of the same meaning."""
        return f"{self.help} Kafka: {self.kafka}." if self.kafka else self.help


def metric_row(
    kind: MetricKind,
    exporter: Exporter,
    shared_labels: tuple[str, ...],
    name: str,
    help_: str,
    *labels: str,
    kafka: str = "",
) -> Metric:
    """Return a row; the shared labels come first."""
    all_labels = (*shared_labels, *labels)
    return Metric(
        name=name, kind=kind, exporter=exporter, help=help_, labels=all_labels, kafka=kafka
    )
