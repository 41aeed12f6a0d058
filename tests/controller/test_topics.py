"""The logs of a topic go only if the BrokerCluster says that its store had the topic."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from strandline.controller.store_events import StoreOutcome, TopicsRead
from strandline.controller.topics import Topics, TopicVerdicts
from strandline.model import ClusterRecord, ControllerEpoch, DeletedTopic, TopicId
from tests.support.world.timings import demo_timing
from tests.support.world.values import NAME, topic

TOPIC = TopicId("00000000-0000-4000-8000-000000000001")
OTHER = TopicId("00000000-0000-4000-8000-000000000002")
EPOCH = ControllerEpoch(4)
CLUSTER = ClusterRecord(
    resource_version="1",
    uid="uid-cluster",
    is_deleting=False,
    controller_epoch=EPOCH,
    topic_revision=7,
)
GONE = DeletedTopic(topic_id=TOPIC, topic_name=NAME)
RECORDED = replace(CLUSTER, deleted_topics=(replace(GONE, deleted_at="t1"),))


def elected(cluster: ClusterRecord | None = CLUSTER, *topics: TopicId) -> Topics:
    """Return the topics of a controller whose first lists showed these."""
    ids = count(1)
    made = Topics(epoch=EPOCH, timing=demo_timing(), new_request_id=lambda: next(ids))
    made.load(cluster, [topic(topic_id=each) for each in topics])
    return made


def asks(topics: Topics) -> bool:
    return topics.next_wakeup_ms is not None


def listed(
    topics: Topics,
    *ids: TopicId,
    cluster: ClusterRecord | None = CLUSTER,
    outcome: StoreOutcome = StoreOutcome.OK,
) -> TopicVerdicts:
    """Suspect TOPIC, and return what a list with these ids means."""
    topics.suspect([TOPIC])
    (read,) = topics.tick(10_000)
    usable = tuple(topic(topic_id=each) for each in ids)
    response = TopicsRead(
        request_id=read.request_id,
        outcome=outcome,
        cluster=cluster,
        topic_ids=frozenset(ids),
        topics=usable,
    )
    return topics.on_topics_read(response, 10_000)


def test_a_topic_that_this_controller_listed_is_recorded_before_its_logs_go() -> None:
    topics = elected(CLUSTER, TOPIC)
    assert listed(topics) == TopicVerdicts(gone=(GONE,))
    assert not topics.is_confirmed(TOPIC)
    assert listed(topics, cluster=RECORDED) == TopicVerdicts(deleted=(TOPIC,))
    assert topics.is_confirmed(TOPIC)


def test_a_topic_that_an_earlier_controller_recorded_is_deleted() -> None:
    assert listed(elected(RECORDED), cluster=RECORDED) == TopicVerdicts(deleted=(TOPIC,))


def test_a_topic_that_the_store_never_had_is_a_stray() -> None:
    topics = elected()
    assert listed(topics) == TopicVerdicts()
    assert topics.missing == {TOPIC}


def test_a_topic_that_is_listed_is_not_gone() -> None:
    topics = elected(CLUSTER, TOPIC)
    assert listed(topics, TOPIC) == TopicVerdicts(current=(topic(topic_id=TOPIC),))
    assert topics.missing == set()


@pytest.mark.parametrize("outcome", [StoreOutcome.UNKNOWN, StoreOutcome.CONFLICT])
def test_a_list_that_was_not_read_proves_nothing(outcome: StoreOutcome) -> None:
    topics = elected(RECORDED, TOPIC)
    assert listed(topics, cluster=None, outcome=outcome) == TopicVerdicts()
    assert topics.missing == set()


@pytest.mark.parametrize(
    ("cluster", "resigns"),
    [
        pytest.param(None, False, id="no BrokerCluster"),
        pytest.param(replace(RECORDED, is_deleting=True), False, id="a BrokerCluster that goes"),
        pytest.param(replace(RECORDED, uid="another"), True, id="another BrokerCluster"),
        pytest.param(
            replace(RECORDED, controller_epoch=ControllerEpoch(3)), True, id="an earlier record"
        ),
        pytest.param(
            replace(RECORDED, controller_epoch=ControllerEpoch(5)), True, id="a later record"
        ),
        pytest.param(replace(RECORDED, topic_revision=6), True, id="an earlier revision"),
    ],
)
def test_nothing_is_deleted_without_the_record_of_this_controller(
    cluster: ClusterRecord | None, resigns: bool
) -> None:
    topics = elected(RECORDED, TOPIC)
    assert listed(topics, cluster=cluster) == TopicVerdicts()
    assert topics.record_lost is resigns


def test_a_topic_that_a_watch_showed_counts_once_a_list_shows_it_beside_its_revision() -> None:
    topics, raised = elected(), replace(CLUSTER, topic_revision=8)
    topics.keep(topic(topic_id=TOPIC))
    topics.note_observed(TOPIC)
    assert topics.uncommitted == {TOPIC}
    topics.note_raised([TOPIC], revision=8)
    assert topics.uncommitted == set()
    listed(topics, TOPIC, cluster=raised)
    assert listed(topics, cluster=raised).gone == (GONE,)


def test_a_topic_that_lists_lack_since_its_revision_rose_is_a_stray() -> None:
    topics, raised = elected(), replace(CLUSTER, topic_revision=8)
    topics.note_observed(TOPIC)
    topics.note_raised([TOPIC], revision=8)
    for _ in range(2):
        assert listed(topics, cluster=raised) == TopicVerdicts()
    listed(topics, TOPIC, cluster=raised)
    assert topics.uncommitted == {TOPIC}


def test_a_list_beside_an_earlier_revision_commits_nothing() -> None:
    topics = elected()
    topics.suspect([OTHER])
    (read,) = topics.tick(10_000)
    topics.keep(topic(topic_id=TOPIC))
    topics.note_raised([TOPIC], revision=8)
    found = (topic(topic_id=TOPIC),)
    response = TopicsRead(
        request_id=read.request_id,
        outcome=StoreOutcome.OK,
        cluster=CLUSTER,
        topic_ids=frozenset({TOPIC}),
        topics=found,
    )
    topics.on_topics_read(response, 10_000)
    assert asks(topics)
    assert listed(topics, cluster=replace(CLUSTER, topic_revision=8)) == TopicVerdicts()


def test_a_topic_that_only_a_list_showed_is_to_be_committed() -> None:
    topics = elected()
    listed(topics, TOPIC)
    assert topics.uncommitted == {TOPIC}
    listed(topics, cluster=None)
    assert topics.uncommitted == set()


@pytest.mark.parametrize(
    ("revision", "resigns"),
    [
        pytest.param(7, False, id="as when the list was asked for"),
        pytest.param(8, False, id="as committed meanwhile"),
        pytest.param(6, True, id="an earlier revision"),
    ],
)
def test_a_list_that_was_out_while_topics_were_committed_is_judged_by_the_record_before(
    revision: int, resigns: bool
) -> None:
    topics = elected(CLUSTER, TOPIC)
    topics.suspect([TOPIC])
    (read,) = topics.tick(10_000)
    topics.keep(topic(topic_id=OTHER))
    topics.note_raised([OTHER], revision=8)
    response = TopicsRead(
        request_id=read.request_id,
        outcome=StoreOutcome.OK,
        cluster=replace(CLUSTER, topic_revision=revision),
        topic_ids=frozenset({OTHER}),
        topics=(topic(topic_id=OTHER),),
    )
    verdicts = topics.on_topics_read(response, 10_000)
    assert topics.record_lost is resigns
    gone = () if resigns else (GONE,)
    committed = (OTHER,) if revision == 8 else ()
    assert verdicts == TopicVerdicts(gone=gone, committed=committed, current=response.topics)
    listed(topics, cluster=CLUSTER)
    assert topics.record_lost


def test_a_recorded_topic_that_is_listed_again_has_returned() -> None:
    topics = elected(RECORDED, TOPIC)
    listed(topics, cluster=RECORDED)
    verdicts = listed(topics, TOPIC, cluster=RECORDED)
    assert (verdicts.returned, verdicts.deleted) == ((TOPIC,), ())
    assert not topics.is_confirmed(TOPIC)


def test_a_stray_is_asked_about_once_and_a_recorded_topic_each_time_it_is_on_disk() -> None:
    topics = elected()
    topics.suspect_unknown([TOPIC], [OTHER])
    assert asks(topics)
    listed(topics)
    topics.suspect_unknown([TOPIC], [])
    assert not asks(topics)
    listed(topics, cluster=RECORDED)
    topics.suspect_unknown([], [TOPIC])
    assert not asks(topics)
    topics.suspect_unknown([TOPIC])
    assert asks(topics)
