"""Which resources a request is about: what the table's checks ask the authorizer about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

from broker.authorization.checks import Resource
from broker.handlers.find_coordinator import FIRST_BATCHED_VERSION, KeyType
from broker.handlers.produce import transactional_id_of
from broker.request_context import RequestContext
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from metadata.configs import ResourceType as ConfigType
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.errors import ClusterAuthorization, InvalidRequest

FIRST_VERSION_BETWEEN_BROKERS = 4
"""The first version of AddPartitionsToTxn that brokers send each other."""

Name = Callable[[RequestContext, Any], "str | None"]
Resources = Callable[[RequestContext, Any], Iterable["Resource | None"]]


def the_cluster(_ctx: RequestContext, _request: Any) -> str:
    return CLUSTER_NAME


def field(name: str) -> Name:
    """The resource whose name is in this field of the request."""
    value = attrgetter(name)
    return lambda _ctx, request: value(request)


def by_name(asked: str, resource_type: ResourceType, name: str | None = "name") -> Resources:
    """The resources whose names the items of a list have in this field; None: they are names themselves."""
    items = attrgetter(asked)
    if name is None:
        return lambda _ctx, request: ((resource_type, item) for item in items(request))
    name_of = attrgetter(name)
    return lambda _ctx, request: ((resource_type, name_of(item)) for item in items(request))


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


def transactional_id_if_any(_ctx: RequestContext, request: Any) -> str | None:
    transactional_id: str | None = request.transactional_id
    return transactional_id


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


def committed_topics(ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
    """The topics of a commit, by name or by id; an id that no topic has needs no right."""
    for asked in request.topics:
        known = None if asked.name else ctx.image.topics.by_id(asked.topic_id)
        name = asked.name or (known and known.name)
        yield (ResourceType.TOPIC, name) if name else None


def distinct_topics(request: Any) -> list[Any]:
    """The topics of a Metadata request, each once: those with an id, if there are any, as names do not count then."""
    with_ids = {topic.topic_id: topic for topic in request.topics if topic.topic_id is not None}
    return list((with_ids or {topic.name: topic for topic in request.topics}).values())


def created_topics(_ctx: RequestContext, request: Any) -> Iterator[Resource | None]:
    """What is wrong whoever asks for it is refused as such: a name given twice, and that of the metadata log."""
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
