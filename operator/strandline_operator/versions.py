"""Which image a cluster's brokers run: that of `spec.version`, else what they ran before.

    spec.version names one of the operator's versions -> its image
    spec.version is absent, or was not changed         -> the image that the cluster has
    the cluster is new                                 -> the operator's own version

So a new operator, whose table and default are others, restarts no broker. While a roll goes on,
brokers of two versions replicate from each other, so a step leads to the next release at most.

Pure; called by `plan` and `status`.

Source:  Strimzi's spec.kafka.version with a table of images; CloudNativePG, which writes down the
         image that a cluster was created with (ADR 0054).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from strandline.kube.api import Object
from strandline.model import BrokerId

from . import kinds
from .actions import PostEvent
from .conditions import Readiness
from .observed import DesiredCluster, ObservedCluster, Ownership
from .operator_config import VERSION_PATTERN, OperatorConfig

VERSION_CHANGED: Final = "VersionChanged"
"""Reason of the Event that tells which version the brokers will have from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVersion:
    """A version and its image; both "" if nothing is known, version alone for an unknown image."""

    version: str = ""
    image: str = ""

    def __str__(self) -> str:
        return f"version {self.version or '(unknown)'}, image {self.image}"

    @property
    def status(self) -> Object:
        """Return what the status shows of it; nothing of what is unknown."""
        shown = {"version": self.version, "image": self.image}
        return {field: value for field, value in shown.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChoice:
    """What a cluster's pods are to run, and what the status shows until it is written.

    refusal says why spec.version is not followed; wanted is then what the cluster has, and its
    image "" if it has none yet.
    """

    wanted: ClusterVersion
    kept: ClusterVersion
    refusal: Readiness | None = None

    @property
    def obstacle(self) -> Readiness | None:
        """Return why no pod can be made at all, None if there is an image."""
        return None if self.wanted.image else self.refusal

    def status(self, *, is_written: bool) -> Object:
        """Return status.version and status.image; is_written tells whether the pods may have it."""
        return (self.wanted if is_written else self.kept).status


def choose(
    desired: DesiredCluster, observed: ObservedCluster, config: OperatorConfig
) -> VersionChoice:
    """Return what a cluster's pods are to run."""
    kept, named = _kept(desired, observed, config), desired.version
    if named in config.broker_images:
        wanted = ClusterVersion(version=named, image=config.broker_images[named])
        refusal = None if named == kept.version else _too_far(desired, observed, kept)
        return VersionChoice(wanted=kept if refusal else wanted, kept=kept, refusal=refusal)
    if kept.image and named in ("", kept.version):
        return VersionChoice(wanted=kept, kept=kept)
    if named:
        known = ", ".join(sorted(config.broker_images, key=_release))
        message = (
            f"spec.version is {named}, but this operator has images of versions {known} only; "
            f"name one of these, or add it to broker.versions of the chart{_meanwhile(kept)}"
        )
        refusal = Readiness(reason="UnknownVersion", message=message, refused=True)
        return VersionChoice(wanted=kept, kept=kept, refusal=refusal)
    default = config.broker_version
    wanted = ClusterVersion(version=default, image=config.broker_images[default])
    return VersionChoice(wanted=wanted, kept=kept)


def events(desired: DesiredCluster, choice: VersionChoice) -> list[PostEvent]:
    """Return an Event if the brokers of a cluster get another image than they have."""
    if not choice.kept.image or choice.wanted.image == choice.kept.image:
        return []
    message = f"brokers get {choice.wanted} instead of {choice.kept}, one after the other"
    return [PostEvent(about=desired.ref, reason=VERSION_CHANGED, message=message, is_warning=False)]


def running(desired: DesiredCluster, observed: ObservedCluster) -> Mapping[BrokerId, str]:
    """Return the version of each broker that told one when it registered."""
    told = {each: found.software_version for each, found in observed.registrations.items()}
    return {each: told[each] for each in desired.broker_ids if told.get(each)}


def _kept(
    desired: DesiredCluster, observed: ObservedCluster, config: OperatorConfig
) -> ClusterVersion:
    """Return what the cluster has: as the status shows it, else the image of its StatefulSet.

    The status comes first because a StatefulSet is deleted when volumes grow (ADR 0053). Operators
    before this field left no status; their clusters have the version whose image they have,
    else the one that all their brokers told.
    """
    shown = observed.status.written
    image = str(shown.get("image") or _image_of_pods(desired, observed))
    version = str(shown.get("version") or "")
    if image and not version:
        named = [each for each, known in config.broker_images.items() if known == image]
        told = set(running(desired, observed).values())
        version = next(iter(named or (told if len(told) == 1 else ())), "")
    return ClusterVersion(version=version, image=image)


def _image_of_pods(desired: DesiredCluster, observed: ObservedCluster) -> str:
    """Return the image of the brokers in the cluster's StatefulSet, "" without one."""
    found = observed.parts.get((kinds.STATEFUL_SET.kind, desired.ref.name))
    if found is None or found[0] in (Ownership.PREDECESSORS, Ownership.FOREIGN):
        return ""
    containers = found[1].whole["spec"]["template"]["spec"].get("containers") or []
    return next((str(each["image"]) for each in containers if each["name"] == "broker"), "")


def _too_far(
    desired: DesiredCluster, observed: ObservedCluster, kept: ClusterVersion
) -> Readiness | None:
    """Return why brokers of a version may not run beside those that are there, None if they may."""
    beside = {kept.version, *running(desired, observed).values()}
    far = [each for each in beside if not _may_meet(each, desired.version)]
    if not far:
        return None
    message = (
        f"spec.version is {desired.version}, but brokers of {_listed(far)} are there, and only "
        "those of neighbouring releases may run side by side; go there release by release, and "
        f"wait for the end of each roll{_meanwhile(kept)}"
    )
    return Readiness(reason="VersionTooFar", message=message, refused=True)


def _meanwhile(kept: ClusterVersion) -> str:
    return f". Meanwhile the cluster keeps {kept}, and no broker restarts" if kept.image else ""


def _listed(versions: Iterable[str]) -> str:
    return " and ".join(sorted(versions, key=_release))


def _release(version: str) -> tuple[int, int, int, str]:
    """Return a version in the order of releases; what is none comes first."""
    found = VERSION_PATTERN.fullmatch(version)
    if found is None:
        return -1, -1, -1, version
    major, minor, patch = (int(found[each]) for each in (1, 2, 3))
    return major, minor, patch, version


def _may_meet(one: str, other: str) -> bool:
    """Tell whether brokers of two versions may run side by side.

    They may within a minor release, with the minor release before or after it, and across the
    beginning of a major release; a rule of the definition says the same. A version that nobody can
    read forbids nothing.
    """
    lower, higher = sorted((_release(one)[:2], _release(other)[:2]))
    if lower[0] < 0 or lower[0] == higher[0]:
        return lower[0] < 0 or higher[1] - lower[1] <= 1
    return higher == (lower[0] + 1, 0)
