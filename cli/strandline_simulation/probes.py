"""Asks which process listens at a broker's address, for the controller and for its session."""

from __future__ import annotations

from collections.abc import Callable

from strandline.controller.events import ProbeVerdict
from strandline.model import BrokerId

from .environment import SimulatedEnvironment
from .messages import Probe, ProbeResponse
from .network import Address, Channel
from .process_port import ProcessPort

OnVerdict = Callable[[ProbeVerdict], None]


class Prober:
    """The probes of one process; each has one verdict, at its deadline at the latest."""

    def __init__(self, environment: SimulatedEnvironment, port: ProcessPort) -> None:
        self._environment = environment
        self._port = port
        self._last_probe_id = 0
        self._waiting: dict[int, tuple[str, OnVerdict]] = {}

    def probe(
        self, target: BrokerId, incarnation: str, deadline_ms: int, on_verdict: OnVerdict
    ) -> None:
        """Ask once; silence up to the deadline is NO_ANSWER."""
        self._last_probe_id += 1
        probe = Probe(probe_id=self._last_probe_id)
        self._waiting[probe.probe_id] = (incarnation, on_verdict)
        self._environment.network.send(self._port.address, Address(target), probe, Channel.PROBE)
        self._environment.virtual_time.after(
            deadline_ms, self._port.deliver, self._judge, probe.probe_id, ProbeVerdict.NO_ANSWER
        )

    def on_response(self, response: ProbeResponse) -> None:
        """Take the name of the process that listens there."""
        incarnation, _ = self._waiting.get(response.probe_id, ("", None))
        same = response.incarnation == incarnation
        verdict = ProbeVerdict.ANSWERED if same else ProbeVerdict.OTHER_INCARNATION
        self._judge(response.probe_id, verdict)

    def on_refused(self, probe: Probe) -> None:
        """Take note that nothing listens there."""
        self._judge(probe.probe_id, ProbeVerdict.REFUSED)

    def _judge(self, probe_id: int, verdict: ProbeVerdict) -> None:
        waiting = self._waiting.pop(probe_id, None)
        if waiting is not None:
            waiting[1](verdict)
