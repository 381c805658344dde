"""What the three kinds of modern groups answer alike: the course of their heartbeats and of their descriptions.

How it works: `consumer_groups.py`, `share_groups.py` and `streams_groups.py` say what differs, and make their handlers
here. A heartbeat passes the same checks for each kind (is it offered, may the client see the topics, is the request
right in itself), and is then an operation of the group's shard. A description asks the coordinator of each group; one
that cannot be described has its own error, and so has one with topics that the client may not see.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.network.answers import ask_each
from broker.network.ports import Handle
from broker.request_context import RequestContext
from broker.security.permissions import UNKNOWN
from coordinator.group.modern.group import ModernGroup
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.topics import TopicsPort
from coordinator.runtime.outcome import Outcome
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.record_schema import Partitions
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidGroupId, KafkaError, TopicAuthorization
from protocol.schema import maker

A = TypeVar("A")
G = TypeVar("G", bound=ModernGroup[Any, Any])
H = TypeVar("H", bound="Heartbeat")
T = TypeVar("T")

Offer: TypeAlias = tuple[str] | tuple[str, str]
"""The feature that makes a cluster have such groups, and the protocol that a broker must offer."""


class Heartbeat(Protocol):
    """A heartbeat as the coordinator of any kind takes it."""

    @property
    def group_id(self) -> str: ...


class PartitionsAnswer(Protocol):
    """What the coordinator of a kind answers whose members have partitions; `assigned` is None if they know them."""

    @property
    def member_id(self) -> str: ...

    @property
    def member_epoch(self) -> int: ...

    @property
    def heartbeat_interval_ms(self) -> int: ...

    @property
    def assigned(self) -> Partitions | None: ...


class DescribeRequest(Protocol):
    """A request to describe groups."""

    @property
    def group_ids(self) -> Sequence[str]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


def require_topics(ctx: RequestContext, topics: Iterable[str], text: str | None = None) -> None:
    """Raises TopicAuthorization unless the client may describe each of the topics."""
    if not all(ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        raise TopicAuthorization(text)


# -- heartbeats


def heartbeats(
    offer: Offer,
    authorized: Callable[[RequestContext, H], H],
    check: Callable[[H], None],
    operation: Callable[[ModernGroups, H], Outcome[A]],
    answer: Callable[[RequestContext, H, Future[A]], Any],
    read: Callable[[RequestContext, Any], H] | None = None,
) -> Handle:
    """The handler of a kind's heartbeats.

    Args:
        offer: see `RequestContext.require`.
        authorized: checks the client's rights where there is an authorizer, and returns the heartbeat with them.
        check: raises InvalidRequest for a heartbeat that is wrong in itself.
        operation: what the group's shard does.
        answer: makes the response of what the shard answers.
        read: makes the heartbeat of a request; None if that is done before (`Handler.prepare`).
    """

    def handle(ctx: RequestContext, request: Any) -> Any:
        ctx.require(*offer)
        heartbeat = request if read is None else read(ctx, request)
        if ctx.permissions is not None:
            heartbeat = authorized(ctx, heartbeat)
        check(heartbeat)
        done = ctx.coordinators.groups.write(
            heartbeat.group_id, lambda state: operation(state.groups.modern, heartbeat)
        )
        return answer(ctx, heartbeat, done)

    return handle


def heartbeat_response(
    response: type[T], assignment: Callable[..., Any], topic_partitions: Callable[..., Any]
) -> Callable[[PartitionsAnswer], T]:
    """The function that makes this class of response of an answer that assigns partitions."""
    new_response: Callable[..., T] = maker(response)

    def respond(answer: PartitionsAnswer) -> T:
        assigned = answer.assigned
        return new_response(
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            error_message=None,
            member_id=answer.member_id,
            member_epoch=answer.member_epoch,
            heartbeat_interval=answer.heartbeat_interval_ms * MILLISECOND,
            assignment=None
            if assigned is None
            else assignment(
                topic_partitions=tuple(
                    [
                        topic_partitions(topic_id=topic, partitions=tuple(sorted(indexes)))
                        for topic, indexes in assigned.items()
                    ]
                )
            ),
        )

    return respond


# -- descriptions


def descriptions(
    offer: Offer,
    kind: type[G],
    response: Callable[..., T],
    described_group: Callable[..., Any],
    own: Callable[[Any, ModernGroups, G], tuple[dict[str, Any], Iterable[str]]],
    undescribed: Mapping[str, Any],
) -> Callable[[RequestContext, Any], T | Awaitable[T]]:
    """The handler of a kind's descriptions.

    Args:
        offer: see `RequestContext.require`.
        kind: the groups.
        response: the response, whose items are `described_group`.
        own: from a request and a group, the fields that other kinds do not have alike, and the topics that they name.
        undescribed: those fields for a group that could not be described.
    """

    def describe(ctx: RequestContext, request: DescribeRequest, groups: ModernGroups, group_id: str) -> Any:
        group = groups.get(kind, group_id)
        fields, topics = own(request, groups, group)
        if ctx.permissions is not None:
            require_topics(ctx, topics, "The group uses topics that the client is not authorized to describe.")
        operations = ctx.operations(ResourceType.GROUP, group_id, asked=request.include_authorized_operations)
        return described_group(**group_fields(group, operations), **fields)

    def failed(group_id: str, error: KafkaError) -> Any:
        return described_group(
            error_code=error.code,
            error_message=error.explicit_message,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            members=(),
            authorized_operations=UNKNOWN,
            **undescribed,
        )

    def handle(ctx: RequestContext, request: DescribeRequest) -> T | Awaitable[T]:
        ctx.require(*offer)

        def ask(group_id: str) -> Future[Any]:
            return ctx.coordinators.groups.read(
                group_id, lambda state: describe(ctx, request, state.groups.modern, group_id)
            )

        def respond(answers: Mapping[str, Any]) -> T:
            groups = {
                group_id: failed(group_id, answer) if isinstance(answer, KafkaError) else answer
                for group_id, answer in {**answers, "": InvalidGroupId()}.items()
            }
            return response(throttle_time=ZERO, groups=tuple(groups[group_id] for group_id in request.group_ids))

        return ask_each(filter(None, request.group_ids), ask, respond)

    return handle


def group_fields(group: ModernGroup[Any, Any], operations: int) -> dict[str, Any]:
    """The fields of a described group that all kinds have alike."""
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group.group_id,
        "group_state": group.state_name,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "authorized_operations": operations,
    }


def member_fields(member: Any) -> dict[str, Any]:
    """The fields of a described member that all kinds have."""
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
    }


def described_assignment(
    topics: TopicsPort, assignment: Callable[..., T], topic_partitions: Callable[..., Any], *parts: Partitions
) -> T:
    """The partitions of all the parts by their topics' names, without topics that no longer exist."""
    images = [image for image in map(topics.by_id, dict.fromkeys(chain(*parts))) if image is not None]
    return assignment(
        topic_partitions=tuple(
            topic_partitions(topic_id=image.id, topic_name=image.name, partitions=_indexes(image.id, parts))
            for image in sorted(images, key=lambda image: image.name)
        )
    )


def _indexes(topic_id: UUID, parts: Iterable[Partitions]) -> tuple[int, ...]:
    return tuple(sorted(frozenset[int]().union(*(part.get(topic_id, ()) for part in parts))))


def topics_of(assignments: Iterable[Any]) -> set[str]:
    """The names of the topics in described assignments."""
    return {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}
