"""Asks which process listens at a broker's address, for the controller and for its session."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from strandline.controller.effects import Introduction
from strandline.controller.events import ProbeVerdict
from strandline.model import BrokerId

from .environment import SimulatedEnvironment
from .messages import Probe, ProbeResponse
from .network import Address, Channel
from .process_life import ProcessLife

OnVerdict = Callable[[ProbeVerdict], None]


class Prober:
    """The probes of one process; each has one verdict, at its deadline at the latest."""

    def __init__(self, environment: SimulatedEnvironment, life: ProcessLife) -> None:
        self._environment = environment
        self._life = life
        self._probe_ids = itertools.count(1)
        self._waiting: dict[int, tuple[str, OnVerdict]] = {}

    def probe(
        self,
        target: BrokerId,
        incarnation: str,
        deadline_ms: int,
        on_verdict: OnVerdict,
        introduction: Introduction | None = None,
    ) -> None:
        """Ask once; silence up to the deadline is NO_ANSWER."""
        probe = Probe(
            probe_id=next(self._probe_ids), incarnation=incarnation, introduction=introduction
        )
        self._waiting[probe.probe_id] = (incarnation, on_verdict)
        self._environment.network.send(self._life.address, Address(target), probe, Channel.PROBE)
        self._life.deliver_after(deadline_ms, self._judge, probe.probe_id, ProbeVerdict.NO_ANSWER)

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
