"""What a demo and a bench work in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .clusters import Cluster
from .kubectl import Kubernetes
from .screen import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The repository, a cluster and a namespace in it, our images there, and what a person sees."""

    root: Path
    cluster: Cluster
    kubernetes: Kubernetes
    images: dict[str, str]
    screen: Screen
