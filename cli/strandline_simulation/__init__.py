"""The shipped core and controller under a seeded world: same classes, no clock, no socket.

Used by `strandline sim` and by tests/simulation. A plan is drawn from a seed
(sizes, faults, requests of clients), run on virtual time, and checked after every event
against the invariants named in `invariants.py`. Nothing here is used by a running broker.
"""
