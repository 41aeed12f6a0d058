"""The replication core: decides, and does nothing else.

`Replicas.step(event, now_ms) -> list[Effect]` is its only entry. No clock, random,
file, socket, logger or metric may live here; record bytes never enter.
"""
