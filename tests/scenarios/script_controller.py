"""Commands of a scenario that acts as the controller: states, announcements, responses."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from strandline.core.effects import ProposeIsr
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    LiveBroker,
    PartitionCommand,
    PartitionState,
)
from tests.support.world.values import NAME, tp

from .language import ScenarioError
from .story import Story


class Response(Enum):
    """Whether the response to a proposal arrives at once, arrives late, or is lost."""

    DELIVERED = "delivered"
    LATE = "late"
    LOST = "lost"


class View(Enum):
    """The state in an announcement: the stored one, or that of the last `save`."""

    STORED = "stored"
    SAVED = "saved"


def live(
    story: Story,
    *,
    brokers: tuple[int, ...],
    to: tuple[int, ...] | None = None,
    controller_epoch: int | None = None,
) -> None:
    """Announce which brokers are live."""
    event = LiveBrokersChanged(
        controller_epoch=_controller_epoch(story, controller_epoch),
        brokers=tuple(
            LiveBroker(
                broker_id=each.broker_id,
                broker_epoch=each.broker_epoch,
                clean_since_epoch=each.clean_since_epoch,
                endpoints=(),
            )
            for each in map(story.broker, brokers)
        ),
    )
    for each in story.alive(to):
        story.step(each.broker_id, event)


def elect(
    story: Story,
    *,
    leader: int,
    isr: tuple[str, ...],
    to: tuple[int, ...] | None = None,
    new: bool = False,
    unclean: bool = False,
) -> None:
    """Commit the next leader epoch, and announce it. In `isr`, 1@2 is an entry of epoch 2.

    unclean=yes says that acknowledged records may be lost.
    """
    if unclean:
        story.world.replication.invariants.acknowledged.clear()
    epoch = LeaderEpoch(story.world.state().leader_epoch + 1)
    story.commit(leader=BrokerId(leader), isr=story.entries(isr), leader_epoch=epoch)
    announce(story, to=to, new=new)


def commit(
    story: Story,
    *,
    isr: tuple[str, ...],
    to: tuple[int, ...] | None = None,
    min_isr: int | None = None,
    replicas: tuple[int, ...] = (),
) -> None:
    """Commit another ISR, min ISR or assignment under the same leadership, and announce it."""
    stored = story.world.state()
    changed = replace(
        stored,
        min_insync_replicas=min_isr or stored.min_insync_replicas,
        replicas=tuple(map(BrokerId, replicas)) or stored.replicas,
    )
    story.world.put_partition(changed)
    story.commit(leader=stored.leader, isr=story.entries(isr), leader_epoch=stored.leader_epoch)
    announce(story, to=to)


def announce(
    story: Story,
    *,
    to: tuple[int, ...] | None = None,
    new: bool = False,
    controller_epoch: int | None = None,
    broker_epoch: int | None = None,
    state: View = View.STORED,
) -> None:
    """Send LeaderAndIsr to brokers, to none of them with to=none."""
    (topic,) = story.world.store.topics.values()
    command = PartitionCommand(
        tp=tp(),
        topic_name=NAME,
        state=story.world.state() if state is View.STORED else _saved(story),
        settings=topic.settings,
        is_new=new,
    )
    for broker in story.alive(to):
        event = LeaderAndIsrReceived(
            request_id=story.next_id(),
            controller_epoch=_controller_epoch(story, controller_epoch),
            broker_epoch=BrokerEpoch(broker_epoch or broker.broker_epoch),
            partitions=(command,),
        )
        story.step(broker.broker_id, event)


def save(story: Story) -> None:
    """Keep the stored state for a later announcement of a controller with an old view."""
    story.saved = story.world.state()


def delete(story: Story, *, to: tuple[int, ...]) -> None:
    """Send StopReplica, as after the deletion of the topic."""
    for broker in story.alive(to):
        event = StopReplicaReceived(
            request_id=story.next_id(),
            controller_epoch=story.world.state().controller_epoch,
            broker_epoch=broker.broker_epoch,
            partitions=(tp(),),
        )
        story.step(broker.broker_id, event)


def accept(
    story: Story, *, broker: int, response: Response = Response.DELIVERED, nth: int = -1
) -> None:
    """Commit a proposal of a leader without a comparison of epochs; by default its latest."""
    proposal, stored = _proposal(story, broker, nth), story.world.state()
    committed = story.commit(
        leader=stored.leader, isr=proposal.isr, leader_epoch=stored.leader_epoch
    )
    _respond(story, broker, response, _response_event(proposal, ErrorCode.NONE, committed))


def refuse(story: Story, *, broker: int, response: Response = Response.DELIVERED) -> None:
    """Refuse a leader's latest proposal: commit the next epoch with the ISR unchanged."""
    proposal, stored = _proposal(story, broker, -1), story.world.state()
    committed = story.commit(leader=stored.leader, isr=stored.isr, leader_epoch=stored.leader_epoch)
    response_event = _response_event(proposal, ErrorCode.INVALID_UPDATE_VERSION, committed)
    _respond(story, broker, response, response_event)


def late(story: Story, *, broker: int) -> None:
    """Deliver the late responses; copies of them remain under way."""
    for event in story.late:
        story.step(broker, event)


def respond(
    story: Story, *, broker: int, error: str = "NONE", stored: bool = True, nth: int = -1
) -> None:
    """Respond to a proposal without a commit."""
    proposal = _proposal(story, broker, nth)
    state = story.world.state() if stored else None
    story.step(broker, _response_event(proposal, ErrorCode[error], state))


def _controller_epoch(story: Story, given: int | None) -> ControllerEpoch:
    return ControllerEpoch(given or story.world.state().controller_epoch)


def _saved(story: Story) -> PartitionState:
    if story.saved is None:
        raise ScenarioError("no state was saved")
    return story.saved


def _proposal(story: Story, broker: int, nth: int) -> ProposeIsr:
    proposals = story.proposals.get(broker, [])
    if not proposals:
        raise ScenarioError(f"broker {broker} has proposed nothing")
    return proposals[nth]


def _response_event(
    proposal: ProposeIsr, error: ErrorCode, stored: PartitionState | None
) -> AlterPartitionResponseReceived:
    return AlterPartitionResponseReceived(
        request_id=proposal.request_id, tp=proposal.tp, error=error, stored=stored
    )


def _respond(
    story: Story,
    broker: int,
    response: Response,
    response_event: AlterPartitionResponseReceived,
) -> None:
    match response:
        case Response.DELIVERED:
            story.step(broker, response_event)
        case Response.LATE:
            story.late.append(response_event)
        case Response.LOST:
            pass
