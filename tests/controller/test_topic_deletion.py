"""A topic is deleted only if a quorum list of all topics lacks its uid."""

from __future__ import annotations

from itertools import count

import pytest

from strandline.controller.store_events import StoreOutcome, TopicsRead
from strandline.controller.topic_deletion import TopicDeletion
from strandline.model import TopicId
from tests.support.world.timings import demo_timing

TOPIC = TopicId("00000000-0000-4000-8000-000000000001")
OTHER = TopicId("00000000-0000-4000-8000-000000000002")


def requested() -> tuple[TopicDeletion, int]:
    ids = count(1)
    deletion = TopicDeletion(timing=demo_timing(), new_request_id=lambda: next(ids))
    deletion.suspect([TOPIC])
    (read,) = deletion.tick(0)
    return deletion, read.request_id


def test_a_topic_that_is_not_usable_yet_is_not_gone() -> None:
    deletion, request_id = requested()
    response = TopicsRead(
        request_id=request_id, outcome=StoreOutcome.OK, topic_ids=frozenset({TOPIC}), topics=()
    )
    assert deletion.on_topics_read(response, 0) == []
    assert not deletion.is_confirmed(TOPIC)


def test_a_topic_whose_uid_is_missing_is_gone() -> None:
    deletion, request_id = requested()
    response = TopicsRead(
        request_id=request_id, outcome=StoreOutcome.OK, topic_ids=frozenset({OTHER}), topics=()
    )
    assert deletion.on_topics_read(response, 0) == [TOPIC]
    assert deletion.is_confirmed(TOPIC)


@pytest.mark.parametrize("outcome", [StoreOutcome.UNKNOWN, StoreOutcome.CONFLICT])
def test_a_list_that_was_not_read_proves_nothing(outcome: StoreOutcome) -> None:
    deletion, request_id = requested()
    assert deletion.on_topics_read(TopicsRead(request_id=request_id, outcome=outcome), 0) == []
    assert not deletion.is_confirmed(TOPIC)
