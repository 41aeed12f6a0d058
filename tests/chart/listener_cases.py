"""Listeners and registrations in the CRDs: a complete external listener, and every bound."""

from __future__ import annotations

from typing import Any, Final

Bounds = dict[str, dict[str, tuple[Any, Any]]]

EXTERNAL_LISTENER: Final[dict[str, Any]] = {
    "type": "NodePort",
    "advertisedHost": "broker-{broker}.example.com",
    "nodeAddress": "ExternalIP",
    "bootstrap": {
        "nodePort": 30_092,
        "advertisedHost": "first.example.com",
        "advertisedPort": 9_092,
    },
    "brokers": [
        {
            "broker": 0,
            "nodePort": 30_093,
            "advertisedHost": "192.0.2.1",
            "advertisedPort": 9_093,
        },
        {"broker": 1},
    ],
}
BROKER_SPEC: Final[dict[str, Any]] = {
    "brokerId": 1,
    "external": {"host": "192.0.2.1", "port": 30094},
    "rack": "zone-a",
}
_PORT: Final = {"minimum": (1, 0), "maximum": (65_535, 65_536)}
_HOST: Final = {"maxLength": ("h" * 253, "h" * 254), "pattern": ("2001:db8::1", "a b")}


def _address(path: str) -> Bounds:
    return {
        f"{path}.nodePort": _PORT,
        f"{path}.advertisedHost": _HOST,
        f"{path}.advertisedPort": _PORT,
    }


LISTENER_BOUNDS: Final[Bounds] = {
    "spec.externalListener.type": {"enum": ("NodePort", "ClusterIP")},
    "spec.externalListener.nodeAddress": {"enum": ("InternalIP", "Hostname")},
    "spec.externalListener.advertisedHost": {
        "maxLength": ("h" * 200, "h" * 201),
        "pattern": ("b{broker}.c", "b{id}.c"),
    },
    **_address("spec.externalListener.bootstrap"),
    "spec.externalListener.brokers": {
        "maxItems": ([{"broker": n} for n in range(3)], [{"broker": n} for n in range(101)]),
        "unique": ([{"broker": 0}, {"broker": 1}], [{"broker": 1}, {"broker": 1}]),
    },
    "spec.externalListener.brokers[].broker": {"minimum": (0, -1)},
    **_address("spec.externalListener.brokers[]"),
    "status.externalListener.bootstrapServers": {"maxItems": (["h:1"] * 100, ["h:1"] * 101)},
    "status.externalListener.bootstrapServers[]": {"maxLength": ("h" * 262, "h" * 263)},
}

REGISTRATION_BOUNDS: Final[Bounds] = {
    "spec.external.host": {"minLength": ("h", ""), "maxLength": ("h" * 253, "h" * 254)},
    "spec.external.port": _PORT,
    "spec.rack": {"minLength": ("r", ""), "maxLength": ("r" * 63, "r" * 64)},
    "status.listeners": {
        "minItems": ([{"name": "A", "host": "h", "port": 1}], []),
        "maxItems": (
            [{"name": f"L{n}", "host": "h", "port": 1} for n in range(8)],
            [{"name": f"L{n}", "host": "h", "port": 1} for n in range(9)],
        ),
        "unique": (
            [{"name": "A", "host": "h", "port": 1}, {"name": "B", "host": "h", "port": 1}],
            [{"name": "A", "host": "h", "port": 1}, {"name": "A", "host": "g", "port": 2}],
        ),
    },
    "status.listeners[].name": {"minLength": ("n", ""), "maxLength": ("n" * 32, "n" * 33)},
    "status.listeners[].host": {"minLength": ("h", ""), "maxLength": ("h" * 253, "h" * 254)},
    "status.listeners[].port": _PORT,
    "status.logDirId": {"minLength": ("d", ""), "maxLength": ("d" * 64, "d" * 65)},
    "status.bootId": {"minLength": ("b", ""), "maxLength": ("b" * 64, "b" * 65)},
    "status.rack": {"minLength": ("r", ""), "maxLength": ("r" * 63, "r" * 64)},
    "status.softwareVersion": {"minLength": ("v", ""), "maxLength": ("v" * 64, "v" * 65)},
    "status.protocolVersion": {"minimum": (1, 0), "maximum": (1000, 1001)},
}
