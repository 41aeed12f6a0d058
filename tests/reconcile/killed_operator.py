"""An operator that is killed after each of its writes, until it has nothing left to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from strandline_operator.operator_lease import NAME as OPERATOR_LEASE
from tests.reconcile.conftest import OperatorProcess
from tests.support.api_proxy import ApiProxy, Write


def run_killed_after_each_write(
    operator: OperatorProcess,
    folder: Path,
    begin: Callable[[], object],
    is_done: Callable[[], bool],
    *,
    within_ms: int,
) -> int:
    """Start the operator again and again; return how often it was killed.

    begin gives it something to do. A start ends with a write that is not about the operator's
    Lease, which kills it, or with is_done, both within_ms. Afterwards it does not run.
    """
    operator.kill()
    direct = operator.kubeconfig
    proxy = ApiProxy(direct, folder)
    proxy.after = partial(_kill_after, operator)
    proxy.start()
    operator.use_kubeconfig(proxy.kubeconfig)
    killed = 0
    try:
        begin()
        while True:
            operator.start()
            operator.wait_for("a kill or the end", partial(_is_over, operator, is_done), within_ms)
            if operator.runs():
                return killed
            killed += 1
    finally:
        operator.kill()
        operator.use_kubeconfig(direct)
        proxy.stop()


def _kill_after(operator: OperatorProcess, write: Write) -> None:
    if not (write.plural == "leases" and write.is_about(OPERATOR_LEASE)):
        operator.kill()


def _is_over(operator: OperatorProcess, is_done: Callable[[], bool]) -> bool:
    return not operator.runs() or is_done()
