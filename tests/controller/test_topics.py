"""A topic is deleted only if a quorum list of all topics lacks its uid."""

from __future__ import annotations

from itertools import count

import pytest

from strandline.controller.store_events import StoreOutcome, TopicsRead
from strandline.controller.topics import Topics
from strandline.model import TopicId
from tests.support.world.timings import demo_timing

TOPIC = TopicId("00000000-0000-4000-8000-000000000001")
OTHER = TopicId("00000000-0000-4000-8000-000000000002")


def requested() -> tuple[Topics, int]:
    ids = count(1)
    topics = Topics(timing=demo_timing(), new_request_id=lambda: next(ids))
    topics.suspect([TOPIC])
    (read,) = topics.tick(0)
    return topics, read.request_id


def test_a_topic_that_is_not_usable_yet_is_not_gone() -> None:
    topics, request_id = requested()
    response = TopicsRead(
        request_id=request_id, outcome=StoreOutcome.OK, topic_ids=frozenset({TOPIC}), topics=()
    )
    assert topics.on_topics_read(response, 0) == []
    assert not topics.is_confirmed(TOPIC)


def test_a_topic_whose_uid_is_missing_is_gone() -> None:
    topics, request_id = requested()
    response = TopicsRead(
        request_id=request_id, outcome=StoreOutcome.OK, topic_ids=frozenset({OTHER}), topics=()
    )
    assert topics.on_topics_read(response, 0) == [TOPIC]
    assert topics.is_confirmed(TOPIC)


@pytest.mark.parametrize("outcome", [StoreOutcome.UNKNOWN, StoreOutcome.CONFLICT])
def test_a_list_that_was_not_read_proves_nothing(outcome: StoreOutcome) -> None:
    topics, request_id = requested()
    assert topics.on_topics_read(TopicsRead(request_id=request_id, outcome=outcome), 0) == []
    assert not topics.is_confirmed(TOPIC)
