"""The stream between a broker and the broker that it takes for the controller.

A stream keeps its order; a message that the network loses breaks it, and both ends hear of
that some time later. What was under way when it broke may still arrive: the fences must
hold against that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from strandline.controller.events import ControllerEvent
from strandline.model import BrokerId

if TYPE_CHECKING:
    from .process import Process
    from .world import World


class Session:
    """One stream; server is None until the hello arrived."""

    __slots__ = ("client", "client_ended", "number", "server", "server_ended", "server_id", "world")

    def __init__(self, world: World, number: int, client: Process, server_id: BrokerId) -> None:
        self.world = world
        self.number = number
        self.client = client
        self.server_id = server_id
        self.server: Process | None = None
        self.client_ended = False
        self.server_ended = False

    def hello(self, incarnation: str, events: tuple[ControllerEvent, ...]) -> None:
        """Open the stream."""
        self._send_up(self._on_hello, incarnation, events)

    def up(self, *events: ControllerEvent, repeatable: bool = False) -> None:
        """Say something to the controller."""
        if not self.client_ended:
            self._send_up(self._on_up, events, repeatable=repeatable)

    def beat(self, *events: ControllerEvent) -> None:
        """Give a sign of life; one that is lost is only late on a real stream."""
        source, network = self.client.broker_id, self.world.network
        if not self.client_ended:
            network.send(source, self.server_id, "session", self._on_up, events)

    def down(self, message: tuple[Any, ...], *, repeatable: bool = False) -> None:
        """Say something to the broker: the tuple is what its link takes."""
        client, server_id, network = self.client, self.server_id, self.world.network
        arrive: Callable[..., None] = client.deliver
        if not network.send(
            server_id,
            client.broker_id,
            "session",
            arrive,
            client.link.on_down,
            self,
            message,
            repeatable=repeatable,
        ):
            self.break_after(self.world.plan.timing.break_detected_ms)

    def break_after(self, delay_ms: int) -> None:
        """End the stream without anybody's doing."""
        self.world.timeline.after(delay_ms, self._break)

    def end_by_client(self) -> None:
        """Close the stream, as the broker does."""
        if not self.client_ended:
            self.client_ended = True
            self.world.timeline.after(1, self._break)

    def _break(self) -> None:
        self.world.sessions.pop(self.number, None)
        self.client.deliver(self.client.link.on_broken, self)
        if self.server is not None:
            self.server.deliver(self.server.office.on_broken, self)

    def _send_up(
        self, arrive: Callable[..., None], *arguments: object, repeatable: bool = False
    ) -> None:
        source = self.client.broker_id
        if not self.world.network.send(
            source, self.server_id, "session", arrive, *arguments, repeatable=repeatable
        ):
            self.break_after(self.world.plan.timing.break_detected_ms)

    def _on_hello(self, incarnation: str, events: tuple[ControllerEvent, ...]) -> None:
        server = self.world.serving(self.server_id)
        if server is None or server.incarnation != incarnation:
            self.break_after(1)
            return
        self.server = server
        server.deliver(server.office.on_hello, self, events)

    def _on_up(self, events: tuple[ControllerEvent, ...]) -> None:
        if self.server is not None:
            self.server.deliver(self.server.office.on_up, self, events)
