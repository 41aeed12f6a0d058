"""What a broker's death costs the controller: its own partitions, and not those of others."""

from __future__ import annotations

from functools import partial

from tests.support.counted_calls import calls_of, lines_of
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


def die(world: World) -> None:
    """Kill broker 1, and let the controller elect other leaders."""
    world.kill(1)
    world.advance(DEATH_IS_PROVED_MS)


def test_a_death_costs_by_the_partitions_of_the_dead_broker() -> None:
    counts = []
    for of_others in (80, 800):
        world = with_partitions_of_others(of_others)

        counts.append(calls_of(partial(die, world)))
        assert {world.state(number).leader for number in range(OWN)} == {0}
    assert counts[0] == counts[1]


def test_each_lost_partition_costs_the_same_however_many_are_lost() -> None:
    """Their preferred leaders wait meanwhile: no event may look at all that wait."""
    costs = []
    for lost in (50, 200):
        world = with_active_controller(state(leader=1), nodes=(0,), partitions=lost)
        costs.append(lines_of(partial(die, world)) / lost)
        assert {world.state(number).leader for number in range(lost)} == {0}
    assert costs[1] < 1.05 * costs[0]
