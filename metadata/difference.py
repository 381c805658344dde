"""The records that lead from one image to another, as when a snapshot takes the place of a whole image (KIP-630).

Everything that follows the image expects a delta; so a snapshot is turned into a delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from metadata.configs import ConfigsImage, Resource, ResourceType
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.maps import Map
from metadata.settings import METADATA_VERSION, QuotaKey
from metadata.snapshot import broker_record, partition_record
from metadata.topics import TopicsImage


def delta_to(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """The changes from one image to another; applied, they give an image that is equal to `after`."""
    delta = MetadataDelta(before)
    delta.replay_all(records_between(before, after))
    return delta


def records_between(before: MetadataImage, after: MetadataImage) -> Iterator[Any]:
    """The records of these changes; a level of `metadata.version` comes first."""
    yield from _features(before.features, after.features)
    yield from _brokers(before, after)
    yield from _topics(before.topics, after.topics)
    yield from _configs(_without(before.configs, _removed_with(before, after)), after.configs)
    yield from _quotas(before.quotas, after.quotas)
    if before.next_producer_id != after.next_producer_id:
        from protocol.metadata.topics import ProducerIdsRecord

        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=after.next_producer_id)
    yield from _credentials(before, after)


def _features(before: Map[str, int], after: Map[str, int]) -> Iterator[Any]:
    from protocol.metadata.topics import FeatureLevelRecord

    for name in sorted({*before, *after}, key=lambda name: (name != METADATA_VERSION, name)):
        if before.get(name) != after.get(name):
            yield FeatureLevelRecord(name=name, feature_level=after.get(name, 0))


def _brokers(before: MetadataImage, after: MetadataImage) -> Iterator[Any]:
    from protocol.metadata.brokers import UnregisterBrokerRecord, UnregisterControllerRecord

    for node_id, broker in before.cluster.brokers.items():
        if node_id not in after.cluster.brokers:
            yield UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.epoch)
    for node_id, broker in after.cluster.brokers.items():
        if before.cluster.brokers.get(node_id) != broker:
            yield broker_record(broker)
    for node_id in before.cluster.controllers:
        if node_id not in after.cluster.controllers:
            yield UnregisterControllerRecord(controller_id=node_id)
    for node_id, controller in after.cluster.controllers.items():
        if before.cluster.controllers.get(node_id) != controller:
            yield controller


def _topics(before: TopicsImage, after: TopicsImage) -> Iterator[Any]:
    from protocol.metadata.topics import RemoveTopicRecord, TopicRecord

    for topic in before:
        if topic.id not in after.names:
            yield RemoveTopicRecord(topic_id=topic.id)
    for topic in after:
        known = before.by_id(topic.id)
        if known is topic:
            continue
        if known is None:
            yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.in_order():
            if known is None or known.partitions.get(index) != partition:
                yield partition_record(topic, index, partition)


def _removed_with(before: MetadataImage, after: MetadataImage) -> set[Resource]:
    """Return the topics that go, with their configurations: even one of the same name begins anew."""
    names = (topic.name for topic in before.topics if topic.id not in after.topics.names)
    return {(int(ResourceType.TOPIC), name) for name in names}


def _without(configs: ConfigsImage, gone: Iterable[Resource]) -> ConfigsImage:
    by_resource = configs.by_resource.mutate()
    for resource in gone:
        by_resource.pop(resource, None)
    return ConfigsImage(by_resource.finish())


def _configs(before: ConfigsImage, after: ConfigsImage) -> Iterator[Any]:
    from protocol.metadata.topics import ConfigRecord

    for resource_type, resource_name in {*before.by_resource, *after.by_resource}:
        old, new = before.of(resource_type, resource_name), after.of(resource_type, resource_name)
        for name in _changed(old, new):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=new.get(name))


def _quotas(before: Map[QuotaKey, Map[str, float]], after: Map[QuotaKey, Map[str, float]]) -> Iterator[Any]:
    from protocol.metadata.topics import ClientQuotaRecord, QuotaEntity

    none: Map[str, float] = Map()
    for key in {*before, *after}:
        old, new = before.get(key, none), after.get(key, none)
        entity = tuple(QuotaEntity(entity_type=entity_type, entity_name=name) for entity_type, name in key)
        for name in _changed(old, new):
            yield ClientQuotaRecord(entity=entity, key=name, value=new.get(name, 0.0), remove=name not in new)


def _credentials(before: MetadataImage, after: MetadataImage) -> Iterator[Any]:
    from protocol.metadata.credentials import (
        RemoveAccessControlEntryRecord,
        RemoveDelegationTokenRecord,
        RemoveUserScramCredentialRecord,
    )

    for user, mechanism in _gone(before.scram, after.scram):
        yield RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
    yield from (after.scram[key] for key in _changed(before.scram, after.scram) if key in after.scram)
    for acl_id in _gone(before.acls, after.acls):
        yield RemoveAccessControlEntryRecord(id=acl_id)
    yield from (after.acls[key] for key in _changed(before.acls, after.acls) if key in after.acls)
    for token_id in _gone(before.tokens, after.tokens):
        yield RemoveDelegationTokenRecord(token_id=token_id)
    yield from (after.tokens[key] for key in _changed(before.tokens, after.tokens) if key in after.tokens)


def _gone(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> list[Any]:
    """The keys that are no longer there."""
    return sorted(key for key in before if key not in after)


def _changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> list[Any]:
    """The keys whose values differ."""
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
