"""A broker's end of its session with the active controller: the third pure machine (ADR 0019).

`ControllerSession.step(event, now_ms) -> list[Effect]` is its only entry; a shell of the runtime or
of the simulator performs the effects. No clock, random, file, socket, logger or metric is here.
"""
