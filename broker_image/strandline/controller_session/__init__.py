"""A broker's end of its session with the active controller: the third pure machine (ADR 0019).

`ControllerSession.step(event, now_ms) -> list[Effect]` is its only entry. The session decides whom
to dial, when to send heartbeats, when a broken stream proves the controller dead, which messages
are too old to be applied, and when a controlled shutdown has ended. No clock, random, file, socket,
logger or metric may live here; a shell of the runtime or of the simulator performs the effects.
"""
