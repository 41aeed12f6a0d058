"""What all clients of a broker share, whichever listener they came through.

Made once for a broker and passed to each of its listeners: a second port must not double the memory
that clients can take or the length of a step, nor give an address that rests another door.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .budget import Budget
from .file_sender import SENDING_THREADS_MAX
from .listener_settings import ListenerSettings
from .observer import ClientNames
from .refused_addresses import RefusedAddresses
from .turns import TurnQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounds:
    """Budgets and memories of all connections; each bound is a field of the settings."""

    connections: Budget
    """Connections that are served."""
    response_memory: Budget
    """Bytes of responses that clients have not taken yet."""
    request_memory: Budget
    """Bytes of the frames that do not fit the staging buffer of their connection."""
    waiting_acks: Budget
    """Partitions whose acknowledgement a produce request awaits."""
    client_names: ClientNames
    refused_addresses: RefusedAddresses
    turns: TurnQueue
    sending_threads: ThreadPoolExecutor
    """Threads that send records from files; they run only while there is something to send."""

    @classmethod
    def of(cls, settings: ListenerSettings, loop: asyncio.AbstractEventLoop) -> ClientBounds:
        """Return unused bounds."""
        return cls(
            connections=Budget(most=settings.connections_max),
            response_memory=Budget(most=settings.response_memory_max_bytes),
            request_memory=Budget(most=settings.request_memory_max_bytes),
            waiting_acks=Budget(most=settings.acks_waiting_max),
            client_names=ClientNames(names_max=settings.client_names_max),
            refused_addresses=RefusedAddresses(settings, loop.time),
            turns=TurnQueue(loop),
            sending_threads=ThreadPoolExecutor(SENDING_THREADS_MAX, thread_name_prefix="send"),
        )
