"""Where a message has topics, partitions, groups and transactional ids, as far as kio's classes say it.

A list of topics is an array of entities with a topic's name or id. It may lie in other arrays (`path`), as those of
OffsetFetch lie in its groups. Only lists count that the answer has too: what a heartbeat says of its member's
partitions is nothing that the request asks for. Names are known by kio's types, and in our own classes by the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from ..schema import EntityClass, FieldPlan, field_plans
from . import messages
from .row import Api

TOPIC, GROUP, TRANSACTIONAL_ID = "TopicName", "GroupId", "TransactionalId"
"""The names of kio's types."""


class KeyType(IntEnum):
    """The type of FindCoordinator's keys (Kafka's `FindCoordinatorRequest.CoordinatorType`)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_BY_FIELD = {
    "group_id": GROUP,
    "group_ids": GROUP,
    "groups_names": GROUP,
    "transactional_id": TRANSACTIONAL_ID,
}
"""What strings are whose type does not say it."""

COORDINATOR_KEYS = ("coordinator_keys", "key")
"""What FindCoordinator calls its keys, in newer and older versions."""

_PARTITION_NUMBERS = ("partition_index", "partition", "partition_id", "index")
_PARTITION_LISTS = (
    "partitions",
    "partition_indexes",
    "partition_data",
    "partition_result",
    "partition_responses",
    "results_by_partition",
)


@dataclass(frozen=True, slots=True)
class TopicList:
    """A list of topics, or of resources that may be topics.

    Attributes:
        path: the fields from the message to the list, which is the last of them.
        name, topic_id: the fields of an item; None if it has none. An item of a list with neither is a name itself.
        partitions: the field with the item's partitions; None if it has none.
        number: the field of a partition with its number; None if it is a number itself.
    """

    path: tuple[str, ...]
    name: str | None = None
    topic_id: str | None = None
    partitions: str | None = None
    number: str | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """A field with a group or transactional id, or a list of them; `path` leads to it as that of a list does."""

    path: tuple[str, ...]
    is_list: bool


def named_type(plan: FieldPlan) -> str | None:
    """TOPIC, GROUP, TRANSACTIONAL_ID, another type's name, or None for a field that names nothing."""
    if plan.kind == "uuid" and plan.name == "topic_id":
        return "TopicId"
    if plan.kind != "string":
        return plan.type_name if plan.type_name == "ProducerId" else None
    return plan.type_name if plan.type_name in (TOPIC, GROUP, TRANSACTIONAL_ID) else _BY_FIELD.get(plan.name)


def is_partition_number(plan: FieldPlan) -> bool:
    return plan.kind == "int32" and plan.name in _PARTITION_NUMBERS


@cache
def topics_of(request: EntityClass, response: EntityClass) -> TopicList | None:
    """The list of topics that a request asks for; None if it has none."""
    answered = any(True for _ in _topic_lists(response, ()))
    return next(_topic_lists(request, ()), None) if answered else None


@cache
def topics_answered(response: EntityClass) -> TopicList | None:
    """The list of an answer that has an error for each topic, or for each partition."""
    lists = (found for found in _topic_lists(response, ()) if len(found.path) == 1)
    return next((found for found in lists if _has_error(response, found)), None)


@cache
def selectors_of(api: Api) -> tuple[str, ...]:
    """Return which of these the requests of an API name: topic, partition, group and transactional_id."""
    request, response = messages.newest_request(api), messages.newest_response(api)
    topics, keys = topics_of(request, response), keys_of(request)
    named = {
        "topic": topics,
        "partition": topics and topics.partitions,
        "group": names_of(request, GROUP) or keys,
        "transactional_id": names_of(request, TRANSACTIONAL_ID) or keys,
    }
    return tuple(name for name, found in named.items() if found)


@cache
def keys_of(request: EntityClass) -> str | None:
    """The field with keys of coordinators, which are groups or transactional ids; None if there is none."""
    names = (plan.name for plan in field_plans(request) if plan.kind == "string" and plan.name in COORDINATOR_KEYS)
    return next(names, None)


@cache
def names_of(request: EntityClass, what: str) -> Names | None:
    """The field of a request with what is so called (GROUP, TRANSACTIONAL_ID); None if it has none."""
    return next(_names(request, what, ()), None)


def _topic_lists(cls: EntityClass, path: tuple[str, ...]) -> Iterator[TopicList]:
    for plan in field_plans(cls):
        if not plan.array or plan.tag is not None or plan.name.startswith("forgotten"):
            continue
        here = (*path, plan.name)
        if plan.entity is None:
            if plan.type_name == TOPIC and plan.name == "topic_names":
                yield TopicList(here)
            continue
        found = _topic_list(plan.entity, here)
        if found is not None:
            yield found
        else:
            yield from _topic_lists(plan.entity, here)


def _topic_list(item: EntityClass, path: tuple[str, ...]) -> TopicList | None:
    fields = {plan.name: plan for plan in field_plans(item) if not plan.array}
    name = next((field for field, plan in fields.items() if named_type(plan) == TOPIC), None)
    if name is None and {"resource_name", "resource_type"} <= fields.keys() and path in _RESOURCES:
        return TopicList(path, "resource_name")
    topic_id = "topic_id" if "topic_id" in fields else None
    if name is None and topic_id is not None and "name" in fields:
        name = "name"
    if name is None and topic_id is None:
        return None
    for plan in field_plans(item):
        if plan.array and plan.name in _PARTITION_LISTS:
            numbers = () if plan.entity is None else field_plans(plan.entity)
            number = next((each.name for each in numbers if is_partition_number(each)), None)
            return TopicList(path, name, topic_id, plan.name, number)
    return TopicList(path, name, topic_id)


_RESOURCES = (("resources",), ("results",), ("responses",))


def _has_error(response: EntityClass, topics: TopicList) -> bool:
    (item,) = (plan.entity for plan in field_plans(response) if plan.name == topics.path[0])
    if any(plan.kind == "error_code" for plan in field_plans(item)):
        return True
    inner = [plan.entity for plan in field_plans(item) if plan.name == topics.partitions and plan.entity is not None]
    return any(plan.kind == "error_code" for entity in inner for plan in field_plans(entity))


def _names(cls: EntityClass, what: str, path: tuple[str, ...]) -> Iterator[Names]:
    plans = field_plans(cls)
    for plan in plans:
        if named_type(plan) == what:
            yield Names((*path, plan.name), plan.array)
    for plan in plans:
        if plan.array and plan.entity is not None and plan.tag is None:
            yield from _names(plan.entity, what, (*path, plan.name))
