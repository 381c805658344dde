"""The records that make an image out of nothing, for a snapshot (Kafka's `MetadataImage.write`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metadata.brokers import BrokerRegistration
from metadata.image import MetadataImage
from metadata.settings import METADATA_VERSION
from metadata.topics import PartitionRegistration, TopicImage, TopicsImage


def records_of(image: MetadataImage) -> Iterator[Any]:
    """The level of `metadata.version` comes first, as it tells a reader what may follow."""
    yield from _features(image)
    yield from map(broker_record, image.cluster.brokers.values())
    yield from image.cluster.controllers.values()
    yield from _topics(image.topics)
    yield from _configs(image)
    yield from _quotas(image)
    if image.next_producer_id:
        from protocol.metadata.topics import ProducerIdsRecord

        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    yield from image.scram.values()
    yield from image.tokens.values()


def _features(image: MetadataImage) -> Iterator[Any]:
    from protocol.metadata.topics import FeatureLevelRecord

    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def broker_record(broker: BrokerRegistration) -> Any:
    """All that is known of a broker."""
    from protocol.metadata.brokers import RegisterBrokerRecord, SupportedFeature

    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(broker.listeners.values()),
        features=tuple(
            SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        cordoned_log_dirs=broker.cordoned_directories,
    )


def _topics(topics: TopicsImage) -> Iterator[Any]:
    from protocol.metadata.topics import TopicRecord

    for topic in topics.sorted():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.in_order():
            yield partition_record(topic, index, partition)


def partition_record(topic: TopicImage, index: int, partition: PartitionRegistration) -> Any:
    """All that is known of a partition."""
    from protocol.metadata.topics import PartitionRecord

    return PartitionRecord(
        partition_id=index,
        topic_id=topic.id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _configs(image: MetadataImage) -> Iterator[Any]:
    from protocol.metadata.topics import ConfigRecord

    for resource_type, resource_name in sorted(image.configs.by_resource):
        configs = image.configs.of(resource_type, resource_name)
        for name in sorted(configs):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=configs[name])


def _quotas(image: MetadataImage) -> Iterator[Any]:
    from protocol.metadata.topics import ClientQuotaRecord, QuotaEntity

    for key, quotas in image.quotas.items():
        entity = tuple(QuotaEntity(entity_type=entity_type, entity_name=name) for entity_type, name in key)
        for name in sorted(quotas):
            yield ClientQuotaRecord(entity=entity, key=name, value=quotas[name], remove=False)
