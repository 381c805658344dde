"""Which resources a request is about: what the checks ask the authorizer about.

Most of it is said by the schema (`protocol.api.shape`); the functions below the first three are the rules that rows of
the table name, for what no schema says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, TypeAlias

from broker.replication.batch_checks import transactional_id_of
from broker.request_context import RequestContext
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from metadata.configs import ResourceType as ConfigType
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.api import messages
from protocol.api.failure import places_of
from protocol.api.row import Api
from protocol.api.shape import GROUP, TRANSACTIONAL_ID, KeyType, names_of, topics_of
from protocol.errors import ClusterAuthorization, InvalidRequest

FIRST_VERSION_BETWEEN_BROKERS = 4
"""The first version of AddPartitionsToTxn that brokers send each other."""

FIRST_BATCHED_VERSION = 4
"""The first version of FindCoordinator that has several keys."""

Resource: TypeAlias = tuple[ResourceType, str]
Name: TypeAlias = Callable[[RequestContext, Any], "str | None"]
Resources: TypeAlias = Callable[[RequestContext, Any], Iterable["Resource | None"]]

_CALLED = {ResourceType.GROUP: GROUP, ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID}


def of_request(api: Api, kind: ResourceType) -> Name:
    """The resource of this kind that a request as a whole is about. Raises LookupError if it has none."""
    if kind is ResourceType.CLUSTER:
        return lambda _ctx, _request: CLUSTER_NAME
    found = names_of(messages.newest_request(api), _CALLED[kind])
    if found is None or found.is_list or len(found.path) != 1:
        raise LookupError(f"{api.name} names no {kind.name}")
    value = attrgetter(found.path[0])
    return lambda _ctx, request: value(request)


def lists_of(api: Api, kind: ResourceType) -> tuple[str, str]:
    """The list of a request whose items are about such resources, and that of its answer. Raises LookupError."""
    if api.own_codec:
        return "topics", "topics"
    request, response = messages.newest_request(api), messages.newest_response(api)
    for place in places_of(request, response):
        if len(place.asked) == 1 and len(place.asked[0]) == 1:
            return place.asked[0][0], place.answered
    raise LookupError(f"{api.name} has no list of {kind.name} with an error for each")


def of_items(api: Api, kind: ResourceType) -> Resources:
    """The resource of each item of that list; None for a topic id that no topic has. Raises LookupError."""
    request = messages.newest_request(api)
    items = attrgetter(lists_of(api, kind)[0])
    if kind is not ResourceType.TOPIC:
        found = names_of(request, _CALLED[kind])
        if found is None or not found.is_list:
            raise LookupError(f"{api.name} has no list of {kind.name}")
        return lambda _ctx, request: ((kind, item) for item in items(request))
    topics = topics_of(request, messages.newest_response(api))
    if topics is None or topics.name is None:
        raise LookupError(f"{api.name} has no list of topics")
    name_of = attrgetter(topics.name)
    if topics.topic_id is None:
        return lambda _ctx, request: ((kind, name_of(item)) for item in items(request))

    def by_name_or_id(ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
        for item in items(request):
            known = None if name_of(item) else ctx.image.topics.by_id(item.topic_id)
            name = name_of(item) or (known and known.name)
            yield (kind, name) if name else None

    return by_name_or_id


# -- records


def produced_transaction(_ctx: RequestContext, request: Any) -> str | None:
    """The transactional id, if there is a transactional batch."""
    return transactional_id_of(request)


def produced_topics(ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
    for key, _ in request.topics:
        if isinstance(key, str):
            yield ResourceType.TOPIC, key
        else:
            topic = ctx.image.topics.by_id(key)
            yield None if topic is None else (ResourceType.TOPIC, topic.name)


# -- coordinators


def _single_key(ctx: RequestContext, request: Any, key_type: KeyType) -> str | None:
    """The key of a request of an old version, which has only one."""
    if ctx.version >= FIRST_BATCHED_VERSION or request.key_type != key_type:
        return None
    key: str = ctx.raw.key
    return key


def coordinator_group(ctx: RequestContext, request: Any) -> str | None:
    return _single_key(ctx, request, KeyType.GROUP)


def coordinator_transaction(ctx: RequestContext, request: Any) -> str | None:
    return _single_key(ctx, request, KeyType.TRANSACTION)


def share_coordinator(_ctx: RequestContext, request: Any) -> str | None:
    return CLUSTER_NAME if request.key_type == KeyType.SHARE else None


def coordinators(_ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
    types = {KeyType.GROUP: ResourceType.GROUP, KeyType.TRANSACTION: ResourceType.TRANSACTIONAL_ID}
    resource_type = types.get(request.key_type)
    for key in request.coordinator_keys:
        yield None if resource_type is None else (resource_type, key)


# -- transactions


def idempotent_write(ctx: RequestContext, request: Any) -> None:
    """Raises ClusterAuthorization for a producer without transactional id that may write nowhere (KIP-679)."""
    permissions = ctx.permissions
    if request.transactional_id is not None or permissions is None:
        return
    idempotent = permissions.allows(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False)
    if not idempotent and not permissions.allows_any(AclOperation.WRITE, ResourceType.TOPIC):
        raise ClusterAuthorization


def between_brokers_only(ctx: RequestContext, _request: Any) -> str | None:
    return CLUSTER_NAME if ctx.version >= FIRST_VERSION_BETWEEN_BROKERS else None


# -- topics


def distinct_topics(request: Any) -> list[Any]:
    """The topics of a Metadata request, each once: those with an id, if there are any, as names do not count then."""
    with_ids = {topic.topic_id: topic for topic in request.topics if topic.topic_id is not None}
    return list((with_ids or {topic.name: topic for topic in request.topics}).values())


def created_topics(_ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
    """Yield the topics; None for what is wrong whoever asks: a name given twice, and that of the metadata log."""
    times = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        wrong = times[topic.name] > 1 or topic.name == CLUSTER_METADATA_TOPIC_NAME
        yield None if wrong else (ResourceType.TOPIC, topic.name)


def deleted_topics(ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
    """A topic that does not exist is refused as such to those who may describe it, and an unknown id to everybody."""
    times = Counter((topic.name, topic.topic_id) for topic in request.topics)
    for asked in request.topics:
        topic = ctx.image.topics.by_id(asked.topic_id) if asked.name is None else ctx.image.topics.get(asked.name)
        if times[asked.name, asked.topic_id] > 1 or (asked.name is not None and asked.topic_id is not None):
            yield None
        elif topic is not None:
            yield ResourceType.TOPIC, topic.name
        elif asked.name is None or ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, asked.name):
            yield None
        else:
            yield ResourceType.TOPIC, asked.name


# -- configurations


def _configured(config_type: int, name: str) -> Resource | None:
    match config_type:
        case ConfigType.TOPIC:
            return ResourceType.TOPIC, name
        case ConfigType.GROUP:
            return ResourceType.GROUP, name
        case ConfigType.BROKER | ConfigType.BROKER_LOGGER | ConfigType.CLIENT_METRICS:
            return ResourceType.CLUSTER, CLUSTER_NAME
    return None


def described_resources(_ctx: RequestContext, request: Any) -> list[Resource]:
    """Raises InvalidRequest for a type that nothing has: for all resources, as in Kafka."""
    found: list[Resource] = []
    for each in request.resources:
        resource = _configured(each.resource_type, each.resource_name)
        if resource is None:
            raise InvalidRequest(InvalidRequest.default_message)
        found.append(resource)
    return found


def changed_resources(_ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
    return (_configured(each.resource_type, each.resource_name) for each in request.resources)
