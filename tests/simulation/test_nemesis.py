"""Faults: what they do to hosts, which data they may lose, and that unknown kinds are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.model import NO_LEADER, BrokerId
from strandline_simulation.nemesis import KINDS, FaultKind, Nemesis
from strandline_simulation.plan import Fault, Plan
from strandline_simulation.plan_generator import draw_plan
from strandline_simulation.run import World, run
from strandline_simulation.summary import Summary
from tests.simulation.directed import JOIN_BELOW_EPOCH_START


def _world(*faults: Fault, plan: Plan = JOIN_BELOW_EPOCH_START) -> World:
    return World(replace(plan, faults=faults))


def _run_until(world: World, ms: int) -> None:
    while world.environment.virtual_time.now_ms < ms:
        world.environment.virtual_time.run_next()


@pytest.mark.parametrize(
    ("kind", "is_another_boot"),
    [("power_loss", True), ("wipe", True), ("stop", True), ("crash", False), ("pause", False)],
    ids=lambda value: value if isinstance(value, str) else f"another boot: {value}",
)
def test_a_fault_that_loses_data_boots_the_host(kind: str, is_another_boot: bool) -> None:
    world = _world(Fault(at_ms=1_500, kind=kind, target="2", for_ms=100))

    def boot_id_at(ms: int) -> str:
        _run_until(world, ms)
        registration = world.environment.api.store.brokers[BrokerId(2)].registration
        assert registration is not None
        return registration.boot_id

    before = boot_id_at(1_400)
    assert (boot_id_at(3_000) != before) is is_another_boot
    assert world.environment.fault_counts[kind] == 1


def test_a_broker_may_lose_data_only_as_far_as_the_guarantee_goes() -> None:
    faults = [
        Fault(at_ms=1_500, kind="wipe", target=str(broker), for_ms=2_000) for broker in (1, 2)
    ]
    world = _world(*faults)
    _run_until(world, 1_600)
    assert world.environment.loss_budget.losses == 1
    assert (world.environment.fault_counts["wipe"], world.environment.fault_counts["crash"]) == (
        1,
        1,
    )


def test_with_one_replica_in_sync_no_broker_may_lose_data() -> None:
    world = _world(plan=replace(JOIN_BELOW_EPOCH_START, min_insync_replicas=1))
    assert not world.environment.loss_budget.may_lose(BrokerId(1))
    assert world.environment.loss_budget.may_lose(BrokerId(0)), "it hosts nothing"


def test_a_full_volume_moves_the_leadership_and_no_member_leaves_the_isr_for_it() -> None:
    world = _world(Fault(at_ms=1_500, kind="volume_full", target="leader:0", for_ms=10_000))

    def leader_and_isr_at(ms: int) -> tuple[BrokerId, set[BrokerId]]:
        _run_until(world, ms)
        found = world.environment.api.store.partitions["topic-0"].state
        assert found is not None
        return found.leader, set(found.isr_ids)

    before, isr_before = leader_and_isr_at(1_400)
    after, isr_after = leader_and_isr_at(1_900)
    assert after in isr_before - {before}
    assert before in isr_after
    assert world.environment.disks[before].is_full


def test_all_volumes_full_at_once_keep_their_leaders_and_acknowledge_nothing() -> None:
    faults = [
        Fault(at_ms=1_500, kind="volume_full", target=str(broker), for_ms=2_000)
        for broker in (1, 2, 3)
    ]
    world = _world(*faults)

    def acknowledged_at(ms: int) -> int:
        _run_until(world, ms)
        found = world.environment.api.store.partitions["topic-0"].state
        assert found is not None
        assert found.leader != NO_LEADER
        return sum(len(each) for each in world.environment.invariants.acknowledged.values())

    while_full = acknowledged_at(2_000)
    assert acknowledged_at(3_400) == while_full


@pytest.mark.parametrize("tell", [True, False])
def test_full_followers_fetch_without_records_in_plans_that_say_so(*, tell: bool) -> None:
    full = Fault(at_ms=1_500, kind="volume_full", target="follower:0", for_ms=2_000)
    world = _world(full, plan=replace(JOIN_BELOW_EPOCH_START, full_followers_tell=tell))
    _run_until(world, 2_200)
    told = any("without_records=True" in line for line in world.environment.trace.lines())
    assert told is tell


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_fault_whose_target_does_not_exist_counts_as_none(kind: str) -> None:
    world = _world(Fault(at_ms=1, kind=kind, target="leader:0", for_ms=100))
    _run_until(world, 100)
    needs_no_broker = kind in {"api_outage", "lose_topic"}
    assert world.environment.fault_counts[kind] == (1 if needs_no_broker else 0)


def test_an_unknown_kind_of_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="earthquake"):
        _world(Fault(at_ms=1, kind="earthquake"))


def test_a_kind_of_fault_needs_no_more_than_its_function_and_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is drawn, injected where the plan says, counted, and shown."""
    met: list[BrokerId] = []

    def hiccup(nemesis: Nemesis, fault: Fault) -> None:
        met.append(nemesis.process(fault).life.broker_id)

    kind = FaultKind(word="hiccup", weight=1, loses_data=False, inject=hiccup)
    monkeypatch.setitem(KINDS, kind.word, kind)
    plans = (
        plan
        for plan in map(draw_plan, range(50))
        if any(fault.kind == kind.word for fault in plan.faults)
    )
    # A planned fault may find no broker of its target's role.
    result = next(result for result in map(run, plans) if met)
    assert result.fault_counts[kind.word] == len(met)
    lines = Summary(results=[result]).table(seconds=1).splitlines()
    assert ["faults:", "hiccup", str(len(met))] in [line.split() for line in lines]
