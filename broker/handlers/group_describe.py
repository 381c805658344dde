"""What ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from broker.network.answers import ask_each
from broker.request_context import RequestContext
from broker.security import permissions as authorized_operations
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from metadata.acls import AclOperation, ResourceType
from protocol.errors import InvalidGroupId, KafkaError, TopicAuthorization

Described = TypeVar("Described")
Response = TypeVar("Response")


class DescribeRequest(Protocol):
    """A request to describe groups."""

    @property
    def group_ids(self) -> Sequence[str]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


def describe_each(
    ctx: RequestContext,
    request: DescribeRequest,
    describe: Callable[[GroupCoordinatorShard, str], Described],
    failed: Callable[[str, KafkaError], Described],
    respond: Callable[[tuple[Described, ...]], Response],
) -> Response | Awaitable[Response]:
    """Ask the coordinator of each group; what it raises, and an empty group id, become the group's own error."""
    coordinator = ctx.coordinators.groups

    def answer(found: Mapping[str, Described | KafkaError]) -> Response:
        described = {
            group_id: failed(group_id, group) if isinstance(group, KafkaError) else group
            for group_id, group in found.items()
        }
        described[""] = failed("", InvalidGroupId())
        return respond(tuple(described[group_id] for group_id in request.group_ids))

    named = [group_id for group_id in request.group_ids if group_id]
    return ask_each(named, lambda group_id: coordinator.read(group_id, lambda state: describe(state, group_id)), answer)


def require_visible(ctx: RequestContext, topics: Iterable[str]) -> None:
    """Raises TopicAuthorization if the client may not describe all topics of a group."""
    if not all(ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        raise TopicAuthorization("The group uses topics that the client is not authorized to describe.")


def operations_on(ctx: RequestContext, request: DescribeRequest, group_id: str) -> int:
    """What the client may do with the group, if it asks."""
    if not request.include_authorized_operations:
        return authorized_operations.UNKNOWN
    return ctx.operations(ResourceType.GROUP, group_id)


def failed_group(group_id: str, error: KafkaError) -> dict[str, Any]:
    """The fields that the three APIs share, for a group that could not be described."""
    return {
        "error_code": error.code,
        "error_message": error.explicit_message,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "members": (),
        "authorized_operations": authorized_operations.UNKNOWN,
    }
