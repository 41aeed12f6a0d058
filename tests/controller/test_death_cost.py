"""What a broker's death costs the controller: its own partitions, and not those of others."""

from __future__ import annotations

from tests.support.counted_calls import calls_of
from tests.support.world.setups import with_active_controller
from tests.support.world.values import entry, state
from tests.support.world.world import World

OWN = 10
DEATH_IS_PROVED_MS = 60
AC = (entry(0), entry(2))


def with_partitions_of_others(count: int) -> World:
    """Return a world in which broker 1 leads some partitions, and is no replica of the others."""
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=OWN)
    of_others = state(leader=2, isr=AC, replicas=(2, 0))
    for number in range(OWN, OWN + count):
        world.put_partition(of_others, number=number, assigned=(2, 0))
    world.settle()
    return world


def test_a_death_costs_by_the_partitions_of_the_dead_broker() -> None:
    counts = []
    for of_others in (80, 800):
        world = with_partitions_of_others(of_others)

        def die(world: World = world) -> None:
            world.kill(1)
            world.advance(DEATH_IS_PROVED_MS)

        counts.append(calls_of(die))
        assert {world.state(number).leader for number in range(OWN)} == {0}
    assert counts[0] == counts[1]
