"""The shell of the core performs every effect that there is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

from strandline.core.effects import Effect
from tests.runtime.whole_leader import WholeLeader


def test_each_type_of_effect_has_what_performs_it(tmp_path: Path) -> None:
    async def run() -> set[type]:
        leader = WholeLeader(tmp_path)
        await leader.stop()
        return set(leader.shell.performers)

    assert asyncio.run(run()) == set(get_args(Effect))
