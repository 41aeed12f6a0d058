"""What `strandline status` shows of clusters with an external listener."""

from __future__ import annotations

from strandline_cli.status import outside_row


def test_addresses_outside_are_listed() -> None:
    bare = {"metadata": {"name": "orders"}, "spec": {"externalListener": {"type": "NodePort"}}}
    assert outside_row(bare) == ("orders", "none yet", "not looked at yet")
    conditions = [
        {"type": "Ready", "reason": "AllBrokersReady"},
        {"type": "ExternalListener", "reason": "AllBrokersAdvertised"},
    ]
    servers = {"bootstrapServers": ["192.0.2.1:30092", "192.0.2.2:30092"]}
    seen = {**bare, "status": {"conditions": conditions, "externalListener": servers}}
    addresses = "192.0.2.1:30092,192.0.2.2:30092"
    assert outside_row(seen) == ("orders", addresses, "AllBrokersAdvertised")
