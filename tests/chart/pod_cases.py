"""Settings of brokers' pods in a BrokerCluster: complete values, their bounds and their rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

Values = dict[str, Any]
Bounds = dict[str, dict[str, tuple[Any, Any]]]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EXPRESSION = {"key": "example.com/disk", "operator": "In", "values": ["fast", "medium"]}
_NODES = {"matchExpressions": [_EXPRESSION]}
_PODS = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {"any": "thing"}, "matchExpressions": [_EXPRESSION]},
}
_OF_PODS = {
    _REQUIRED: [_PODS],
    _PREFERRED: [{"weight": 5, "podAffinityTerm": _PODS}],
}
_SHARED_POD_SPEC: Final[Values] = {
    "spread": {"nodes": "Preferred"},
    "rack": {"topologyKey": "topology.kubernetes.io/zone"},
    "pod": {
        "labels": {"any": "thing"},
        "annotations": {"any": "thing"},
        "nodeSelector": {"any": "thing"},
        "tolerations": [
            {
                "key": "example.com/dedicated",
                "operator": "Equal",
                "value": "brokers",
                "effect": "NoExecute",
                "tolerationSeconds": 60,
            }
        ],
        "affinity": {
            "nodeAffinity": {
                _REQUIRED: {"nodeSelectorTerms": [_NODES]},
                _PREFERRED: [{"weight": 5, "preference": _NODES}],
            },
            "podAffinity": _OF_PODS,
            "podAntiAffinity": _OF_PODS,
        },
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
        "terminationGracePeriodSeconds": 120,
    },
}
POD_SPEC: Final[Values] = json.loads(json.dumps(_SHARED_POD_SPEC))
"""No two parts are one object: an edit at a path changes nothing elsewhere."""
SPREAD_STATUS: Final[Values] = {
    "spread": {"nodes": "Preferred", "reason": "Specified", "message": "it is so"}
}

_NODE_AFFINITY = "spec.pod.affinity.nodeAffinity"
_NODE_TERMS = f"{_NODE_AFFINITY}.{_REQUIRED}.nodeSelectorTerms"
_NODE_PREFERENCES = f"{_NODE_AFFINITY}.{_PREFERRED}"
_POD_AFFINITIES = [f"spec.pod.affinity.{kind}" for kind in ("podAffinity", "podAntiAffinity")]
_SELECTORS = [
    f"{path}.labelSelector"
    for affinity in _POD_AFFINITIES
    for path in (f"{affinity}.{_REQUIRED}[]", f"{affinity}.{_PREFERRED}[].podAffinityTerm")
]
_EXPRESSIONS = [
    f"{path}.matchExpressions"
    for path in (f"{_NODE_TERMS}[]", f"{_NODE_PREFERENCES}[].preference", *_SELECTORS)
]
_KEY = {
    "maxLength": ("a" * 189 + "/" + "b" * 63, "a" * 190 + "/" + "b" * 63),
    "pattern": ("a.b-c/D_e.f", "a/b/c"),
}
_VALUE = {"maxLength": ("v" * 63, "v" * 64), "pattern": ("", "-v")}
_NAME = {"maxLength": ("n" * 253, "n" * 254), "pattern": ("a.b-c", "A")}
_WEIGHT = {"minimum": (1, 0), "maximum": (100, 101)}


def _many(value: Any, count: int) -> tuple[list[Any], list[Any]]:
    return [value] * count, [value] * (count + 1)


def _labels(path: str) -> Bounds:
    some, more = ({f"k{n}": "v" for n in range(count)} for count in (32, 33))
    return {path: {"maxProperties": (some, more)}, f"{path}.any": _VALUE}


def _affinity() -> Iterator[tuple[str, dict[str, tuple[Any, Any]]]]:
    one, two = ([*values] for values in _many(_NODES, 10))
    yield _NODE_TERMS, {"minItems": ([_NODES], []), "maxItems": (one, two)}
    preference = {"weight": 1, "preference": _NODES}
    yield _NODE_PREFERENCES, {"maxItems": _many(preference, 10)}
    yield f"{_NODE_PREFERENCES}[].weight", _WEIGHT
    for path in _POD_AFFINITIES:
        yield f"{path}.{_REQUIRED}", {"maxItems": _many(_PODS, 10)}
        term = {"weight": 1, "podAffinityTerm": _PODS}
        yield f"{path}.{_PREFERRED}", {"maxItems": _many(term, 10)}
        yield f"{path}.{_PREFERRED}[].weight", _WEIGHT
    for path in _SELECTORS:
        yield f"{path.removesuffix('.labelSelector')}.topologyKey", _KEY
        yield from _labels(f"{path}.matchLabels").items()
    for path in _EXPRESSIONS:
        yield path, {"maxItems": _many(_EXPRESSION, 10)}
        yield f"{path}[].key", _KEY
        yield f"{path}[].operator", {"enum": ("NotIn", "Maybe")}
        yield f"{path}[].values", {"maxItems": _many("v", 50)}
        yield f"{path}[].values[]", _VALUE


_SECRETS = [{"name": f"s{n}"} for n in range(17)]
POD_BOUNDS: Final[Bounds] = {
    "spec.spread.nodes": {"enum": ("Required", "Maybe")},
    "spec.rack.topologyKey": _KEY,
    "status.spread.nodes": {"enum": ("Required", "Maybe")},
    "status.spread.reason": {"maxLength": ("R" * 64, "R" * 65), "pattern": ("R", "a b")},
    "status.spread.message": {"maxLength": ("m" * 1024, "m" * 1025)},
    **_labels("spec.pod.labels"),
    **_labels("spec.pod.nodeSelector"),
    **_labels("spec.pod.annotations"),
    "spec.pod.annotations.any": {"maxLength": ("v" * 4096, "v" * 4097)},
    "spec.pod.tolerations": {"maxItems": _many({"key": "k"}, 32)},
    "spec.pod.tolerations[].key": _KEY,
    "spec.pod.tolerations[].operator": {"enum": ("Equal", "Maybe")},
    "spec.pod.tolerations[].value": _VALUE,
    "spec.pod.tolerations[].effect": {"enum": ("NoExecute", "Maybe")},
    "spec.pod.tolerations[].tolerationSeconds": {"minimum": (0, -1), "maximum": (86_400, 86_401)},
    **dict(_affinity()),
    "spec.pod.priorityClassName": _NAME,
    "spec.pod.imagePullSecrets": {
        "maxItems": (_SECRETS[:16], _SECRETS),
        "unique": (_SECRETS[:2], [_SECRETS[0], _SECRETS[0]]),
    },
    "spec.pod.imagePullSecrets[].name": _NAME,
    "spec.pod.terminationGracePeriodSeconds": {"minimum": (30, 29), "maximum": (3600, 3601)},
}
POD_REQUIRED: Final = [
    *(f"status.spread.{name}" for name in ("nodes", "reason", "message")),
    "spec.rack.topologyKey",
    "spec.pod.imagePullSecrets[].name",
    _NODE_TERMS,
    *(path.removesuffix("[]") for path in _EXPRESSIONS if "nodeAffinity" in path),
    *(f"{_NODE_PREFERENCES}[].{name}" for name in ("weight", "preference")),
    *(
        f"{path}.{_PREFERRED}[].{name}"
        for path in _POD_AFFINITIES
        for name in ("weight", "podAffinityTerm")
    ),
    *(f"{path.removesuffix('.labelSelector')}.topologyKey" for path in _SELECTORS),
    *(f"{path}[].{name}" for path in _EXPRESSIONS for name in ("key", "operator")),
]

_OPERATORS_LABELS = (
    "spec.pod.labels cannot have keys of strandline.dev or app.kubernetes.io, because the "
    "operator finds pods by them"
)
_TOLERATION = "spec.pod.tolerations[]"
POD_RULES: Final[list[tuple[str, Values, Values]]] = [
    *(
        (
            f"the keys of {named} are of Kubernetes' form, such as team or example.com/team",
            {path: {wrong: "v"}},
            {path: {"example.com/Te.am_1-x": "v"}},
        )
        for path, named in (
            ("spec.pod.labels", "spec.pod.labels"),
            ("spec.pod.annotations", "spec.pod.annotations"),
            ("spec.pod.nodeSelector", "spec.pod.nodeSelector"),
            (f"{_SELECTORS[0]}.matchLabels", "matchLabels"),
        )
        for wrong in ("a/b/c", "-a", "b" * 64)
    ),
    *(
        (
            _OPERATORS_LABELS,
            {"spec.pod.labels": {wrong: "v"}},
            {"spec.pod.labels": {"example.com/cluster": "v"}},
        )
        for wrong in ("strandline.dev/cluster", "app.kubernetes.io/component")
    ),
    *(
        (
            "matchExpressions with In and NotIn need values",
            {f"{path}[].values": []},
            {f"{path}[].values": ["one"]},
        )
        for path in (_EXPRESSIONS[0], _EXPRESSIONS[-1])
    ),
    *(
        (
            "matchExpressions with Exists and DoesNotExist have no values",
            {f"{path}[].operator": "Exists"},
            {f"{path}[].operator": "Exists", f"{path}[].values": []},
        )
        for path in (_EXPRESSIONS[0], _EXPRESSIONS[-1])
    ),
    (
        "matchExpressions with Gt and Lt need one whole number",
        {f"{_EXPRESSIONS[0]}[].operator": "Gt", f"{_EXPRESSIONS[0]}[].values": ["1", "2"]},
        {f"{_EXPRESSIONS[0]}[].operator": "Gt", f"{_EXPRESSIONS[0]}[].values": ["1"]},
    ),
    (
        "a toleration without a key needs the operator Exists, and tolerates every taint",
        {_TOLERATION: {"effect": "NoExecute"}},
        {_TOLERATION: {"operator": "Exists"}},
    ),
    (
        "a toleration with the operator Exists has no value",
        {f"{_TOLERATION}.operator": "Exists"},
        {_TOLERATION: {"key": "k", "operator": "Exists", "value": ""}},
    ),
    (
        "tolerationSeconds needs the effect NoExecute",
        {f"{_TOLERATION}.effect": "NoSchedule"},
        {_TOLERATION: {"key": "k", "effect": "NoSchedule"}},
    ),
]
"""(message, edits that this rule refuses, edits that all accept)."""
