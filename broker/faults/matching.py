"""Which requests a fault matches, and which of a request's partitions.

What a request is about, topics and partitions, groups and transactional ids, is found as `protocol.api.shape` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.peers.client import INSPECTION_CLIENT_ID
from metadata.configs import ResourceType
from protocol.api import messages
from protocol.api.shape import GROUP, TRANSACTIONAL_ID, KeyType, TopicList, keys_of, names_of, topics_of
from protocol.uuids import ZERO

if TYPE_CHECKING:
    from broker.faults.spec import FaultSpec
    from broker.request_context import RequestContext
    from protocol.api.row import Api


TopicPartition = tuple[str | None, int | None]
"""A topic, None if its id is unknown, and a partition, None if the request names the whole topic."""

OLD_PREFIX = "v3_and_below_"
"""With this kio marks fields that only old versions have."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one request. `partitions` is None if it means all topics there are."""

    partitions: list[TopicPartition] | None = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    transactional_ids: list[str] = field(default_factory=list)


def facts_of(api: Api, ctx: RequestContext, request: Any) -> Facts:
    """The facts of a request; `request` is what the API's handler is given."""
    if api.own_codec:
        return _of_hand_written(api, ctx, request)
    raw = raw_of(ctx, request)
    topics = topics_of(raw.__class__, messages.response_class(api.key, ctx.version))
    partitions = [] if topics is None else _partitions(ctx, raw, topics)
    if api.name == "share_fetch" and partitions is not None:
        partitions = _with_session(ctx, raw, partitions)
    key_type = getattr(raw, "key_type", KeyType.GROUP)
    return Facts(
        partitions,
        list(_named(raw, GROUP, is_keyed=key_type == KeyType.GROUP)),
        list(_named(raw, TRANSACTIONAL_ID, is_keyed=key_type == KeyType.TRANSACTION)),
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


def name_of(ctx: RequestContext, topic: Any, topics: TopicList) -> str | None:
    """The name of a topic in a message; None for a resource that is none, and for an id that no topic has."""
    if isinstance(topic, str):
        return topic
    if getattr(topic, "resource_type", ResourceType.TOPIC) != ResourceType.TOPIC:
        return None
    name: str | None = None if topics.name is None else getattr(topic, topics.name)
    if not name and topics.topic_id is not None and getattr(topic, topics.topic_id) not in (None, ZERO):
        return topic_name(ctx, getattr(topic, topics.topic_id))
    return name


def _of_hand_written(api: Api, ctx: RequestContext, request: Any) -> Facts:
    if api.name == "produce":
        named = [(topic_name(ctx, key), index) for key, entries in request.topics for index, _ in entries]
        return Facts([*named], [], [] if request.transactional_id is None else [request.transactional_id])
    keys = [(key, partition.partition) for key, partitions in request.topics for partition in partitions]
    keys += ctx.local.fetch_sessions.partitions_of(request.session_id)
    return Facts([(topic_name(ctx, key), index) for key, index in dict.fromkeys(keys)])


def _with_session(ctx: RequestContext, raw: Any, named: list[TopicPartition]) -> list[TopicPartition]:
    """The partitions that a ShareFetch names, and those of its session."""
    in_session = ctx.local.share.sessions.partitions_of((raw.group_id or "", raw.member_id))
    return [*dict.fromkeys([*named, *((topic_name(ctx, topic_id), index) for topic_id, index in in_session)])]


def _partitions(ctx: RequestContext, raw: Any, topics: TopicList) -> list[TopicPartition] | None:
    found: list[TopicPartition] = []
    for holder in _holders(raw, topics.path[:-1]):
        items = getattr(holder, topics.path[-1])
        if items is None:
            return None
        for topic in items:
            name = name_of(ctx, topic, topics)
            if topics.partitions is None:
                found.append((name, None))
                continue
            number = topics.number
            partitions = getattr(topic, topics.partitions) or ()
            found += [(name, partition if number is None else getattr(partition, number)) for partition in partitions]
    return found


def _holders(raw: Any, path: Iterable[str]) -> list[Any]:
    """The entities at the end of a path of lists."""
    holders = [raw]
    for name in path:
        holders = [item for holder in holders for item in getattr(holder, name) or ()]
    return holders


def _named(raw: Any, what: str, *, is_keyed: bool) -> Iterator[str]:
    """The groups or transactional ids of a request; `is_keyed`: its keys of coordinators are such."""
    keys = keys_of(raw.__class__)
    if keys is not None and is_keyed:
        value = getattr(raw, keys)
        yield from (value,) if isinstance(value, str) else value
    found = names_of(raw.__class__, what)
    if found is None:
        return
    for holder in _holders(raw, found.path[:-1]):
        value = getattr(holder, found.path[-1])
        if found.is_list:
            yield from value or ()
        elif value is not None:
            yield value


@dataclass(frozen=True, slots=True)
class Selection:
    """The matched part of a request. `whole`: there is no other part."""

    topic: str | None
    partition: int | None
    whole: bool

    def has(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition (None: the topic as such) is in the matched part."""
        if self.topic is not None and topic != self.topic:
            return False
        return self.partition is None or partition is None or partition == self.partition


def matches_head(spec: FaultSpec, ctx: RequestContext) -> bool:
    """Whether the selectors match that need no look into the request; what brokers ask about each other is let be."""
    return (
        ctx.client_id != INSPECTION_CLIENT_ID
        and (spec.version is None or ctx.version == spec.version)
        and (spec.client_id is None or ctx.client_id == spec.client_id)
        and (spec.listener is None or ctx.connection.listener_name == spec.listener)
    )


def select(spec: FaultSpec, facts: Facts) -> Selection | None:
    """The part of a request that the fault is about; None if it is about none."""
    if spec.group is not None and spec.group not in facts.groups:
        return None
    if spec.transactional_id is not None and spec.transactional_id not in facts.transactional_ids:
        return None
    if not spec.selects_partitions:
        return Selection(None, None, whole=True)
    chosen = Selection(spec.topic, spec.partition, whole=False)
    if facts.partitions is None:
        return chosen
    inside = [chosen.has(*partition) for partition in facts.partitions]
    if not any(inside):
        return None
    return Selection(spec.topic, spec.partition, whole=all(inside))
