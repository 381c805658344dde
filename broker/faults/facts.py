"""What a request is about: topics and partitions, groups, transactional ids. A row for each API that has some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from metadata.configs import ResourceType
from protocol.uuids import ZERO

if TYPE_CHECKING:
    from broker.request_context import RequestContext

TopicPartition = tuple[str | None, int | None]
"""A topic, None if its id is unknown, and a partition, None if the request names the whole topic."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one request. `partitions` is None if it means all topics there are."""

    partitions: list[TopicPartition] | None = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    transactional_ids: list[str] = field(default_factory=list)


class Fields(NamedTuple):
    """Where a message has its topics, and in each of them its name and its partitions, and in these their number.

    `partitions` None: there are only topics. `number` None: the partitions are plain numbers.
    """

    topics: str
    name: str = "name"
    partitions: str | None = "partitions"
    number: str | None = "partition_index"


CONFIGS = Fields("resources", "resource_name", partitions=None)
"""Their resources are topics, brokers, groups."""

REQUEST_TOPICS: dict[str, Fields] = {
    "list_offsets": Fields("topics"),
    "metadata": Fields("topics", partitions=None),
    "offset_commit": Fields("topics"),
    "txn_offset_commit": Fields("topics"),
    "offset_delete": Fields("topics"),
    "delete_records": Fields("topics"),
    "offset_for_leader_epoch": Fields("topics", "topic", number="partition"),
    "create_topics": Fields("topics", partitions=None),
    "delete_topics": Fields("topics", partitions=None),
    "create_partitions": Fields("topics", partitions=None),
    "describe_topic_partitions": Fields("topics", partitions=None),
    "describe_producers": Fields("topics", partitions="partition_indexes", number=None),
    "elect_leaders": Fields("topic_partitions", "topic", number=None),
    "alter_partition_reassignments": Fields("topics"),
    "list_partition_reassignments": Fields("topics", partitions="partition_indexes", number=None),
    "describe_configs": CONFIGS,
    "alter_configs": CONFIGS,
    "incremental_alter_configs": CONFIGS,
    "describe_log_dirs": Fields("topics", "topic", number=None),
    "add_partitions_to_txn": Fields("topics", number=None),
    "offset_fetch": Fields("topics", partitions="partition_indexes", number=None),
    "write_txn_markers": Fields("topics", partitions="partition_indexes", number=None),
    "alter_replica_log_dirs": Fields("topics", number=None),
}
"""The fields of requests, in their newest versions. In the last four, topics lie within something else: `INSIDE`."""

INSIDE: dict[str, str] = {
    "add_partitions_to_txn": "transactions",
    "offset_fetch": "groups",
    "write_txn_markers": "markers",
    "alter_replica_log_dirs": "dirs",
}
"""The list whose items have the topics. Older versions of the first two have them at the top."""

GROUP_FIELDS: dict[str, str] = {
    **dict.fromkeys(
        (
            "offset_commit",
            "join_group",
            "heartbeat",
            "leave_group",
            "sync_group",
            "add_offsets_to_txn",
            "txn_offset_commit",
            "offset_delete",
            "consumer_group_heartbeat",
            "streams_group_heartbeat",
            "offset_fetch",
        ),
        "group_id",
    ),
    "describe_groups": "groups",
    "delete_groups": "groups_names",
    "consumer_group_describe": "group_ids",
    "streams_group_describe": "group_ids",
    "find_coordinator": "coordinator_keys",
}

TRANSACTIONAL_ID_FIELDS: dict[str, str] = {
    **dict.fromkeys(
        (
            "produce",
            "init_producer_id",
            "add_partitions_to_txn",
            "add_offsets_to_txn",
            "end_txn",
            "txn_offset_commit",
        ),
        "transactional_id",
    ),
    "describe_transactions": "transactional_ids",
    "find_coordinator": "coordinator_keys",
}

HAND_WRITTEN = ("produce", "fetch")

TOPIC_APIS = frozenset((*HAND_WRITTEN, *REQUEST_TOPICS))
PARTITION_APIS = frozenset((*HAND_WRITTEN, *(api for api, fields in REQUEST_TOPICS.items() if fields.partitions)))
GROUP_APIS = frozenset(GROUP_FIELDS)
TRANSACTIONAL_ID_APIS = frozenset(TRANSACTIONAL_ID_FIELDS)

OLD_PREFIX = "v3_and_below_"

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""The types of FindCoordinator's keys."""


def facts_of(api: str, ctx: RequestContext, request: Any) -> Facts:
    """The facts of a request; `request` is what the API's handler is given."""
    if api in HAND_WRITTEN:
        return _of_hand_written(api, ctx, request)
    raw = raw_of(ctx, request)
    return Facts(
        _topics(api, ctx, request, raw) if api in TOPIC_APIS else [],
        list(_names(raw, GROUP_FIELDS.get(api), GROUP_KEY)),
        list(_names(raw, TRANSACTIONAL_ID_FIELDS.get(api), TRANSACTION_KEY)),
    )


def raw_of(ctx: RequestContext, request: Any) -> Any:
    """The request in the class of its own version, also of an API whose handler has decoded it as that."""
    return ctx.raw if ctx.body else request


def topic_name(ctx: RequestContext, key: Any) -> str | None:
    """The name of a topic that a request names, or of which it has the id."""
    if isinstance(key, str):
        return key
    topic = ctx.image.topics.by_id(key)
    return None if topic is None else topic.name


def name_of(ctx: RequestContext, topic: Any, fields: Fields) -> str | None:
    """The name of a topic in a message; None for a resource that is none, and for an id that no topic has."""
    if getattr(topic, "resource_type", ResourceType.TOPIC) != ResourceType.TOPIC:
        return None
    name: str | None = getattr(topic, fields.name, None)
    if not name and getattr(topic, "topic_id", ZERO) not in (None, ZERO):
        return topic_name(ctx, topic.topic_id)
    return name


def _of_hand_written(api: str, ctx: RequestContext, request: Any) -> Facts:
    if api == "produce":
        named = [(topic_name(ctx, key), index) for key, entries in request.topics for index, _ in entries]
        return Facts([*named], [], [] if request.transactional_id is None else [request.transactional_id])
    keys = [(key, partition.partition) for key, partitions in request.topics for partition in partitions]
    keys += ctx.local.fetch_sessions.partitions_of(request.session_id)
    return Facts([(topic_name(ctx, key), index) for key, index in dict.fromkeys(keys)])


def _topics(api: str, ctx: RequestContext, request: Any, raw: Any) -> list[TopicPartition] | None:
    fields = REQUEST_TOPICS[api]
    inside = INSIDE.get(api)
    if inside is None:
        return _pairs(ctx, getattr(request, fields.topics), fields)
    found: list[TopicPartition] = []
    for one in getattr(raw, inside, (raw,)):
        pairs = _pairs(ctx, _value(one, fields.topics), fields)
        if pairs is None:
            return None
        found += pairs
    return found


def _pairs(ctx: RequestContext, topics: Iterable[Any] | None, fields: Fields) -> list[TopicPartition] | None:
    if topics is None:
        return None
    found: list[TopicPartition] = []
    for topic in topics:
        name = name_of(ctx, topic, fields)
        if fields.partitions is None:
            found.append((name, None))
            continue
        number = fields.number
        partitions = getattr(topic, fields.partitions) or ()
        found += [(name, partition if number is None else getattr(partition, number)) for partition in partitions]
    return found


def _names(raw: Any, field_name: str | None, key_type: int) -> Iterator[str]:
    """The groups or transactional ids in a field, which older versions and lists have elsewhere."""
    if field_name is None:
        return
    if field_name == "coordinator_keys":
        if getattr(raw, "key_type", GROUP_KEY) == key_type:
            yield from getattr(raw, "coordinator_keys", None) or (raw.key,)
        return
    holders = (raw,)
    for inside in ("groups", "transactions"):
        if not hasattr(raw, field_name) and hasattr(raw, inside):
            holders = getattr(raw, inside)
    for holder in holders:
        found = _value(holder, field_name)
        if isinstance(found, str):
            yield found
        else:
            yield from found or ()


def _value(entity: Any, name: str) -> Any:
    """A field, which in older versions of AddPartitionsToTxn has a prefix in kio."""
    return getattr(entity, name) if hasattr(entity, name) else getattr(entity, f"{OLD_PREFIX}{name}")
