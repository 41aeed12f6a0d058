"""What `strandline elect`, `reassign` and `drain` decide on objects, refuse, and say of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from strandline.errors import ConfigError
from strandline_cli import drain, elect, progress, reassign
from strandline_cli.__main__ import main
from strandline_cli.assignments import (
    BEFORE_NOTE,
    Assignment,
    ClusterFound,
    found_cluster,
    is_lost_race,
)
from strandline_cli.commands import CommandFailed

Manifest = dict[str, Any]
TOPIC_ID = "6f0e8b7a-1c2d-4e3f-8a9b-0c1d2e3f4a5b"


def partition(
    number: int = 0, wanted: tuple[int, ...] = (0, 1, 2), *, topic: str = "orders", **status: Any
) -> Manifest:
    """Return a Partition; its status follows its spec unless something else is given."""
    held = {"replicas": list(wanted), "isr": list(wanted), "leader": wanted[0], "leaderEpoch": 3}
    return {
        "metadata": {"name": f"{topic}-{number}", "resourceVersion": "7"},
        "spec": {
            "topicId": TOPIC_ID,
            "topicName": topic,
            "partition": number,
            "replicas": list(wanted),
        },
        "status": {**held, **status},
    }


def broker(number: int, rack: str = "", **status: Any) -> Manifest:
    held = {"brokerEpoch": 1, **status}
    return {
        "metadata": {"name": f"demo-{number}"},
        "spec": {"brokerId": number, **({"rack": rack} if rack else {})},
        "status": {} if status.get("never") else held,
    }


def topic(name: str = "orders", factor: int = 3) -> Manifest:
    spec = {"clusterRef": "demo", "replicationFactor": factor}
    return {"metadata": {"name": name}, "spec": spec}


def cluster(
    *partitions: Manifest, brokers: int | list[Manifest] = 4, factor: int = 3
) -> ClusterFound:
    there = [broker(n) for n in range(brokers)] if isinstance(brokers, int) else brokers
    return found_cluster("demo", partitions, there, [topic(factor=factor)])


def one(found: Manifest) -> Assignment:
    return Assignment(found=found)


MOVING = partition(
    wanted=(3, 1, 4),
    replicas=[3, 1, 4, 0, 2],
    isr=[1, 0, 2],
    addingReplicas=[3, 4],
    removingReplicas=[0, 2],
    leader=1,
)
"""From 0, 1, 2 to 3, 1, 4: nobody has copied yet."""


# --- names --------------------------------------------------------------------------------


def test_words_name_topics_and_partitions_each_once_in_order() -> None:
    found = cluster(partition(10), partition(2), partition(0, topic="paid"))
    assert [each.label for each in found.partitions.values()] == ["orders/2", "orders/10", "paid/0"]
    chosen = found.chosen(["paid/0", "orders", "orders/2"])
    assert [each.label for each in chosen] == ["paid/0", "orders/2", "orders/10"]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("orders/7", "orders/7: topic orders has partitions 0 to 0"),
        ("orders/", "orders/: topic orders has partitions 0 to 0"),
        ("order", "order: cluster demo has the topics orders"),
        ("", ": cluster demo has the topics orders"),
    ],
)
def test_a_word_that_names_nothing_is_refused_with_what_there_is(word: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster(partition()).chosen([word])
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("elect", "name TOPIC[/PARTITION] or give --all"),
        ("elect orders --all", "name TOPIC[/PARTITION] or give --all"),
        ("elect --all --wait-seconds 0", "must be a whole number of at least 1"),
        ("elect --all --no-wait --wait-seconds 3", "not allowed with"),
        ("reassign orders/0", "one of the arguments --to --cancel --status is required"),
        ("reassign --to 0,1", "--to and --cancel need one TOPIC/PARTITION"),
        ("reassign orders --cancel", "--to and --cancel need one TOPIC/PARTITION"),
        ("reassign orders/0 --to=", "must be ids of brokers such as 0,2, not ''"),
        ("reassign orders/0 --to 0,x", "must be ids of brokers such as 0,2, not '0,x'"),
        ("reassign orders/0 --to=-1", "must be ids of brokers such as 0,2, not '-1'"),
        ("reassign orders/0 --to 1 --cancel", "not allowed with argument --to"),
        ("drain", "the following arguments are required: BROKER"),
        ("drain demo-3", "must be a whole number of at least 0, not 'demo-3'"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_read(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.out == ""


# --- writes -------------------------------------------------------------------------------


def test_a_write_is_the_object_as_read_with_its_version_and_a_note_of_the_former_order() -> None:
    found = partition(wanted=(2, 0, 1))
    written = one(found).with_replicas((3, 0, 1))
    assert written["metadata"]["resourceVersion"] == "7"
    assert written["metadata"]["annotations"] == {BEFORE_NOTE: "2,0,1"}
    assert written["spec"] == found["spec"] | {"replicas": [3, 0, 1]}
    assert found["spec"]["replicas"] == [2, 0, 1], "what was read stays as it was"


def test_the_former_order_is_that_of_the_note_if_it_is_of_this_move() -> None:
    def before(note: str) -> tuple[int, ...]:
        noted = MOVING["metadata"] | {"annotations": {BEFORE_NOTE: note}}
        return one(MOVING | {"metadata": noted}).before

    assert one(MOVING).before == (1, 0, 2), "the status has no other order"
    assert before("0,1,2") == (0, 1, 2)
    assert before("0,1,5") == (1, 0, 2)
    assert before("0,1") == (1, 0, 2)
    assert before("0,1,x") == (1, 0, 2)
    again = one(MOVING | {"metadata": MOVING["metadata"] | {"annotations": {BEFORE_NOTE: "0,1,2"}}})
    noted = again.with_replicas((5, 1, 4))["metadata"]["annotations"]
    assert noted == {BEFORE_NOTE: "0,1,2"}, "another change of a move keeps where it began"


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ('Error from server (Conflict): error when replacing "STDIN": modified', True),
        ("Error from server (Conflict): a\nError from server (NotFound): b", True),
        ("Error from server (Conflict): a\nError from server (Forbidden): b", False),
        ("Unable to connect to the server", False),
    ],
)
def test_only_a_lost_race_is_tried_again(said: str, lost: bool) -> None:
    assert is_lost_race(f"kubectl replace: status 1: {said}") is lost


# --- elect --------------------------------------------------------------------------------


def test_a_wish_is_for_the_present_leader_epoch_and_asked_once() -> None:
    found = partition(leader=1)
    assert elect.may_ask(one(found))
    asked = elect.with_wish(one(found))
    assert asked["spec"]["electPreferredIn"] == 3
    assert not elect.may_ask(one(asked))
    later = asked | {"status": asked["status"] | {"leaderEpoch": 4}}
    assert elect.may_ask(one(later)), "another election ended the wish"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (partition(leader=1, isr=[1, 2]), "broker 0 is not in the ISR [1, 2]"),
        (partition(leader=-1, isr=[1]), "it has no leader: no replica in sync is in session"),
        (partition(leader=-1, reason="StateLost"), "it has no leader: StateLost"),
        (MOVING, "it moves, and its last step elects one of [3, 1, 4]"),
        ({**partition(), "status": {}}, "no controller has looked at it yet"),
        (partition(wanted=(3, 1, 2), leader=1), "the volume of broker 3 is full"),
        (partition(wanted=(2, 1, 0), leader=1), "broker 2 never registered"),
        (partition(wanted=(8, 1, 0), leader=1), "there is no broker 8"),
        (
            partition(leader=1),
            "the controller has not elected broker 0: no session, or it shuts down",
        ),
    ],
)
def test_a_preferred_leader_that_does_not_lead_has_a_reason(found: Manifest, why: str) -> None:
    brokers = [broker(0), broker(1), broker(2, never=True), broker(3, volumeFull=True)]
    assert elect.why_not(one(found), cluster(found, brokers=brokers)) == why
    assert elect.row(one(found), cluster(found, brokers=brokers))[-1] == why


@pytest.mark.parametrize("found", [partition(), partition(leader=-1), MOVING])
def test_nothing_is_asked_where_a_wish_has_no_effect(found: Manifest) -> None:
    assert not elect.may_ask(one(found))


def test_the_line_of_a_preferred_leader_that_leads() -> None:
    found = cluster(partition())
    assert elect.row(one(partition()), found) == ("orders/0", "0", "0", "3", "leads")


# --- reassign -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ((), "--to must name between 1 and 9 brokers, not 0"),
        (tuple(range(10)), "--to must name between 1 and 9 brokers, not 10"),
        ((0, 1, 1), "--to must name a broker once, not broker 1 twice"),
        ((0, 1, 7), "--to must name brokers of cluster demo, which are 0,1,2,3, not 7"),
        ((0, 1), "--to must name 3 brokers, as many as spec.replicationFactor of topic orders"),
    ],
)
def test_a_wish_that_could_not_stand_is_refused(wanted: tuple[int, ...], sentence: str) -> None:
    found = cluster(partition())
    with pytest.raises(ConfigError) as refused:
        reassign.refuse_wrong(one(partition()), wanted, found)
    assert sentence in str(refused.value)


def test_a_partition_that_has_no_state_yet_is_not_moved() -> None:
    found = {**partition(), "status": {}}
    with pytest.raises(ConfigError, match="orders/0: no controller has looked at it yet"):
        reassign.refuse_wrong(one(found), (1, 2, 3), cluster(found))


def test_a_move_is_taken_back_to_where_it_began() -> None:
    found = cluster(MOVING, brokers=5)
    assert reassign.back(one(MOVING), found) == (1, 0, 2)
    not_begun = partition(wanted=(3, 1, 2), replicas=[0, 1, 2])
    assert reassign.back(one(not_begun), cluster(not_begun)) == (0, 1, 2)
    with pytest.raises(ConfigError, match=r"orders/0 does not move: it is on \[0, 1, 2\]"):
        reassign.back(one(partition()), cluster(partition()))
    with pytest.raises(ConfigError, match="change that field back"):
        reassign.back(one(MOVING), cluster(MOVING, brokers=5, factor=2))


@pytest.mark.parametrize(
    ("found", "wanted", "line"),
    [
        (partition(), (3, 1, 2), "replicas [0, 1, 2] -> [3, 1, 2], adds 3, removes 0"),
        (partition(), (2, 1, 0), "replicas [0, 1, 2] -> [2, 1, 0], another order"),
        (partition(), (0, 1, 2), "replicas [0, 1, 2]: it is there already"),
        (MOVING, (3, 1, 4), "replicas [3, 1, 4]: it moves there already"),
    ],
)
def test_a_change_is_told_in_a_line(found: Manifest, wanted: tuple[int, ...], line: str) -> None:
    assert reassign.change_line(one(found), wanted) == f"orders/0: {line}"


def moving(**status: Any) -> Manifest:
    return MOVING | {"status": MOVING["status"] | status}


WAITING = partition(wanted=(3, 1, 2), replicas=[0, 1, 2], isr=[0, 1, 2])


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (MOVING, "3,4 copy"),
        (moving(isr=[1, 0, 2, 4]), "3 copy, 4 are in sync"),
        (moving(isr=[3, 4, 0]), "2 of 3 are in sync; 0,2 go next"),
        (partition(wanted=(2, 1, 0), replicas=[0, 1, 2]), "3 of 3 are in sync"),
        (moving(leader=-1), "it waits for a leader: no replica in sync is in session"),
        (
            partition(wanted=(4, 1, 2), replicas=[0, 1, 2]),
            "it waits to add 4: there is no broker 4",
        ),
        (WAITING, "it waits to add 3: the volume of broker 3 is full"),
        ({**partition(), "status": {}}, "no controller has looked at it yet"),
    ],
)
def test_the_state_of_a_move_says_what_it_waits_for(found: Manifest, state: str) -> None:
    brokers = [broker(0), broker(1), broker(2), broker(3, volumeFull=True)]
    assert reassign.state(one(found), cluster(found, brokers=brokers)) == state


def test_a_move_that_may_begin_waits_for_its_turn() -> None:
    said = reassign.progress_line(one(WAITING), cluster(WAITING))
    assert said == (
        "orders/0: it waits to add 3: brokers must be in session, and few partitions copy at once"
    )
    assert reassign.notes(one(WAITING), (9, 1, 2), cluster(WAITING)) == [
        "it waits: there is no broker 9"
    ]


def test_the_line_of_a_move_has_what_is_added_and_removed_and_how_far_copies_are_behind() -> None:
    ends = {1: {"orders/0": 500}, 3: {"orders/0": 120}, 4: {"paid/0": 9}}
    row = reassign.move_row(one(MOVING), cluster(MOVING, brokers=5), ends)
    assert row == ("orders/0", "1", "3,1,4", "1,0,2", "3,4", "0,2", "3: 380", "3,4 copy")
    assert reassign.behind(one(MOVING), {}) == "-"
    assert reassign.behind(one(moving(isr=[3, 4, 1])), ends) == "-", "they are in sync"


# --- drain --------------------------------------------------------------------------------


def spread(brokers: int, factor: int, count: int = 24) -> list[Manifest]:
    """Return partitions on each choice of brokers in turn."""
    choices = itertools.cycle(itertools.permutations(range(brokers), factor))
    return [partition(number, next(choices)) for number in range(count)]


@pytest.mark.parametrize(("brokers", "factor"), [(4, 3), (5, 3), (4, 1), (6, 2)])
def test_a_drained_broker_gives_one_replica_of_each_partition_evenly(
    brokers: int, factor: int
) -> None:
    found = cluster(*spread(brokers, factor), brokers=brokers, factor=factor)
    plan = drain.planned(found, 0)
    held = [label for label, each in found.partitions.items() if 0 in each.wanted]
    assert plan.keys() == set(held)
    for label, wanted in plan.items():
        each = found.partitions[label]
        assert len(set(wanted)) == factor
        assert [new for new, old in zip(wanted, each.wanted, strict=True) if new != old] == [
            next(iter(set(wanted) - set(each.wanted)))
        ]
        reassign.refuse_wrong(each, wanted, found)
    after = [plan.get(label, each.wanted) for label, each in found.partitions.items()]
    counts = Counter(number for wanted in after for number in wanted)
    assert 0 not in counts
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_drain_goes_on_with_what_is_left_and_then_has_nothing_to_do() -> None:
    found = cluster(partition(0), partition(1, (3, 1, 2)), partition(2, (1, 2, 3)))
    plan = drain.planned(found, 0)
    assert plan == {"orders/0": (3, 1, 2)}
    # Told to leave, and on its way: nothing is written twice, and it is not left yet.
    under_way = cluster(partition(0, (3, 1, 2), replicas=[3, 1, 2, 0], removingReplicas=[0]))
    assert drain.planned(under_way, 0) == {}
    assert drain.left(under_way, 0) == ["orders/0: 3 of 3 are in sync; 0 go next"]
    assert drain.left(cluster(partition(0, (3, 1, 2))), 0) == []
    new = cluster({**partition(0), "status": {}})
    assert drain.planned(new, 0) == {}
    assert drain.left(new, 0) == ["orders/0: no controller has looked at it yet"]


def test_racks_stay_apart_where_brokers_have_one() -> None:
    racks = ["a", "b", "c", "b", "a", "c"]
    brokers = [broker(number, rack=rack) for number, rack in enumerate(racks)]
    partitions = [partition(number, (0, 1, 2)) for number in range(6)]
    plan = drain.planned(cluster(*partitions, brokers=brokers), 0)
    assert plan == {f"orders/{number}": (4, 1, 2) for number in range(6)}


@pytest.mark.parametrize(
    ("brokers", "sentence"),
    [
        (
            [broker(0), broker(1), broker(2)],
            "orders/0 has 3 replicas, which need as many brokers, and without broker 0 there are 2",
        ),
        (
            [broker(0), broker(1), broker(2), broker(3, volumeFull=True), broker(4, never=True)],
            "there are 4 (the volume of broker 3 is full; broker 4 never registered): nothing",
        ),
        ([broker(1)], "BROKER must be a broker of cluster demo, which has 1, not 0"),
    ],
)
def test_a_drain_that_does_not_fit_is_refused(brokers: list[Manifest], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        drain.planned(cluster(partition(), brokers=brokers), 0)
    assert sentence in str(refused.value)


def test_the_line_of_a_plan_says_who_takes_the_replica() -> None:
    row = drain.plan_row(one(partition()), (3, 1, 2))
    assert row == ("orders/0", "0,1,2", "3,1,2", "broker 3")


# --- waiting ------------------------------------------------------------------------------


def test_a_wait_in_a_pipe_prints_a_line_when_it_is_new_and_goes_on_while_nobody_can_look(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.0)

    def looks() -> Iterator[list[str] | None]:
        yield from (["a copies", "b waits"], ["a copies", "b copies"], None, ["a copies"], [])

    seen = looks()

    def look() -> list[str]:
        found = next(seen)
        if found is None:
            raise CommandFailed("kubectl get: status 1: connection refused")
        return found

    assert progress.wait(look, 60) == []
    assert capsys.readouterr().out.splitlines() == [
        "a copies",
        "b waits",
        "b copies",
        "cannot look now: connection refused",
        "a copies",
    ]


def test_a_wait_ends_in_time_with_what_is_left() -> None:
    assert progress.wait(lambda: ["a copies"], 0) == ["a copies"]


def test_a_terminal_shows_some_lines_and_counts_the_others() -> None:
    lines = [f"orders/{number} copies" for number in range(progress.LINES_SHOWN + 5)]
    assert progress.shortened(lines) == [*lines[: progress.LINES_SHOWN], "and 5 more"]
    assert progress.shortened(lines[:2]) == lines[:2]
