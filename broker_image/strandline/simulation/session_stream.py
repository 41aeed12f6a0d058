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


class SessionStream:
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

    def send_hello(self, incarnation: str, events: tuple[ControllerEvent, ...]) -> None:
        """Open the stream."""
        self._send_or_break(self._on_hello, incarnation, events)

    def send_to_controller(self, *events: ControllerEvent, repeatable: bool = False) -> None:
        """Send events to the controller."""
        if not self.client_ended:
            self._send_or_break(self._on_broker_message, events, repeatable=repeatable)

    def send_heartbeat(self, *events: ControllerEvent) -> None:
        """Send a heartbeat; one that is lost would only be late on a real stream."""
        source, network = self.client.broker_id, self.world.network
        if not self.client_ended:
            network.send(source, self.server_id, "session", self._on_broker_message, events)

    def send_to_broker(self, message: tuple[Any, ...], *, repeatable: bool = False) -> None:
        """Send a message to the broker: the tuple is what its controller session takes."""
        client, server_id, network = self.client, self.server_id, self.world.network
        on_arrival: Callable[..., None] = client.deliver
        if not network.send(
            server_id,
            client.broker_id,
            "session",
            on_arrival,
            client.controller_session.on_controller_message,
            self,
            message,
            repeatable=repeatable,
        ):
            self.break_after(self.world.plan.timing.break_detected_ms)

    def break_after(self, delay_ms: int) -> None:
        """End the stream, though neither end closed it."""
        self.world.virtual_time.after(delay_ms, self._break)

    def end_by_client(self) -> None:
        """Close the stream, as the broker does."""
        if not self.client_ended:
            self.client_ended = True
            self.world.virtual_time.after(1, self._break)

    def _break(self) -> None:
        self.world.sessions.pop(self.number, None)
        self.client.deliver(self.client.controller_session.on_broken, self)
        if self.server is not None:
            self.server.deliver(self.server.controller_shell.on_broken, self)

    def _send_or_break(
        self, on_arrival: Callable[..., None], *arguments: object, repeatable: bool = False
    ) -> None:
        source = self.client.broker_id
        if not self.world.network.send(
            source, self.server_id, "session", on_arrival, *arguments, repeatable=repeatable
        ):
            self.break_after(self.world.plan.timing.break_detected_ms)

    def _on_hello(self, incarnation: str, events: tuple[ControllerEvent, ...]) -> None:
        server = self.world.serving(self.server_id)
        if server is None or server.incarnation != incarnation:
            self.break_after(1)
            return
        self.server = server
        server.deliver(server.controller_shell.on_hello, self, events)

    def _on_broker_message(self, events: tuple[ControllerEvent, ...]) -> None:
        if self.server is not None:
            self.server.deliver(self.server.controller_shell.on_broker_message, self, events)
