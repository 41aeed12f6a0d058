"""Delivers messages by address, and drops or delays those that a test names.

A broker's address is its number; the controller in the same process has `controller-<number>`,
the store has `store`. A message to an address without a process is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

STORE = "store"
SCRIPT = "controller"
"""The address at which a scenario itself acts as the controller."""


class Mode(Enum):
    """What happens to a held message: it or its response is dropped, or kept for `release`."""

    LOSE = "lost"
    LOSE_RESPONSE = "response_lost"
    DELAY = "delayed"
    DELAY_RESPONSE = "response_delayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A value on its way from one address to another."""

    source: str
    destination: str
    content: object


Endpoint = Callable[[Message], None]


def broker_address(broker_id: int) -> str:
    return str(broker_id)


def controller_address(broker_id: int) -> str:
    return f"controller-{broker_id}"


class Network:
    """Delivers at once, except held messages; calls `on_fault` for each of these."""

    def __init__(self, on_fault: Callable[[Message, Mode], None]) -> None:
        self.held: list[Message] = []
        self._on_fault = on_fault
        self._endpoints: dict[str, Endpoint] = {}
        self._holds: list[tuple[type, Mode, Callable[[object], bool]]] = []
        self._without_response: Message | None = None
        self._responses: list[Message] = []

    def register(self, address: str, endpoint: Endpoint) -> None:
        self._endpoints[address] = endpoint

    def unregister(self, address: str) -> None:
        self._endpoints.pop(address, None)

    def hold(self, kind: type, mode: Mode, when: Callable[[object], bool]) -> None:
        """Drop or delay the next message of this kind for which `when` is true, as `mode` says."""
        self._holds.append((kind, mode, when))

    def hold_nothing(self) -> None:
        self._holds.clear()

    def send(self, source: str, destination: str, content: object) -> None:
        """Deliver a message, or drop or delay it if a hold matches it."""
        message = Message(source=source, destination=destination, content=content)
        request = self._without_response
        if request and (request.destination, request.source) == (source, destination):
            self._responses.append(message)
            return
        for index, (kind, mode, when) in enumerate(self._holds):
            if isinstance(content, kind) and when(content):
                del self._holds[index]
                self._fault(message, mode)
                return
        self.deliver(message)

    def deliver(self, message: Message) -> None:
        """Deliver a message now, whatever is held."""
        endpoint = self._endpoints.get(message.destination)
        if endpoint is not None:
            endpoint(message)

    def _fault(self, message: Message, mode: Mode) -> None:
        match mode:
            case Mode.LOSE:
                pass
            case Mode.DELAY:
                self.held.append(message)
            case Mode.LOSE_RESPONSE:
                self._deliver_without_response(message)
            case Mode.DELAY_RESPONSE:
                self.held += self._deliver_without_response(message)
        self._on_fault(message, mode)

    def _deliver_without_response(self, message: Message) -> list[Message]:
        self._without_response, self._responses = message, []
        self.deliver(message)
        self._without_response = None
        return self._responses
