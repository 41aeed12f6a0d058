"""Messages by address, and what a test takes out of their stream.

A broker's address is its number, that of the controller in its process `controller-<number>`;
the store is `store`. A message to an address where no process listens is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

STORE = "store"
SCRIPT = "controller"
"""The address of the controller that a scenario plays itself."""


class Mode(Enum):
    """A held message is dropped or kept for `release`; or it arrives, and its response is held."""

    LOSE = "lost"
    LOSE_ANSWER = "response_lost"
    DELAY = "delayed"
    DELAY_ANSWER = "response_delayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A value on its way."""

    source: str
    destination: str
    content: object


Endpoint = Callable[[Message], None]


def broker_address(broker_id: int) -> str:
    return str(broker_id)


def controller_address(broker_id: int) -> str:
    return f"controller-{broker_id}"


class Network:
    """Delivers at once, except held messages; `on_fault` hears of those that do not arrive."""

    def __init__(self, on_fault: Callable[[Message, Mode], None]) -> None:
        self.held: list[Message] = []
        self._on_fault = on_fault
        self._endpoints: dict[str, Endpoint] = {}
        self._holds: list[tuple[type, Mode, Callable[[object], bool]]] = []
        self._unanswered: Message | None = None
        self._answers: list[Message] = []

    def register(self, address: str, endpoint: Endpoint) -> None:
        self._endpoints[address] = endpoint

    def unregister(self, address: str) -> None:
        self._endpoints.pop(address, None)

    def hold(self, kind: type, mode: Mode, when: Callable[[object], bool]) -> None:
        """Treat the next message of this kind so."""
        self._holds.append((kind, mode, when))

    def hold_nothing(self) -> None:
        self._holds.clear()

    def send(self, source: str, destination: str, content: object) -> None:
        """Deliver a message, or treat it as the first matching hold says."""
        message = Message(source=source, destination=destination, content=content)
        request = self._unanswered
        if request and (request.destination, request.source) == (source, destination):
            self._answers.append(message)
            return
        for index, (kind, mode, when) in enumerate(self._holds):
            if isinstance(content, kind) and when(content):
                del self._holds[index]
                self._fault(message, mode)
                return
        self.deliver(message)

    def deliver(self, message: Message) -> None:
        """Let a message arrive now."""
        endpoint = self._endpoints.get(message.destination)
        if endpoint is not None:
            endpoint(message)

    def _fault(self, message: Message, mode: Mode) -> None:
        match mode:
            case Mode.LOSE:
                pass
            case Mode.DELAY:
                self.held.append(message)
            case Mode.LOSE_ANSWER:
                self._deliver_without_answer(message)
            case Mode.DELAY_ANSWER:
                self.held += self._deliver_without_answer(message)
        self._on_fault(message, mode)

    def _deliver_without_answer(self, message: Message) -> list[Message]:
        self._unanswered, self._answers = message, []
        self.deliver(message)
        self._unanswered = None
        return self._answers
