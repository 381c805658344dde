"""Changes of partitions when brokers come and go, and when their directories fail.

Source: Kafka's `ReplicationControlManager`, `handleBroker...` (KIP-631, KIP-841, KIP-858, KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from controller.decision import ConfigSchema
from controller.partition_change import Election, PartitionChange
from controller.replica_rules import ReplicaRules
from metadata.brokers import BrokerRegistration
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, TopicImage
from protocol.metadata.brokers import BrokerRegistrationChangeRecord, UnregisterBrokerRecord

UNFENCED, FENCED = -1, 1
IN_CONTROLLED_SHUTDOWN = 1

MOST_IN_A_STEP = 300
"""The most partitions that one decision about a broker changes. If there are more, each step is a decision of its own,
so that nothing else has to wait until thousands of partitions are decided on, written and published."""

Place = tuple[TopicImage, int]
"""A topic and the index of a partition."""


def fence(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> list[Any]:
    """The broker leads nothing, is in no ISR, and is fenced."""
    broker = image.cluster.brokers[broker_id]
    return [*leave(image, schema, broker_id), _change(broker, fenced=FENCED)]


def fence_in_steps(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> tuple[list[Any], bool]:
    """The next step of what `fence` does, and whether it is the last one, which alone fences the broker.

    So no broker is fenced that still leads something, even if the controller ends between two steps.
    """
    left = list(islice(leave(image, schema, broker_id), MOST_IN_A_STEP))
    if len(left) == MOST_IN_A_STEP:
        return left, False
    return [*left, _change(image.cluster.brokers[broker_id], fenced=FENCED)], True


def unfence(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Iterator[Any]:
    """The broker is unfenced, and leads what has no leader and what it may lead."""
    yield _change(image.cluster.brokers[broker_id], fenced=UNFENCED)
    yield from take_over(image, schema, broker_id)


def take_over(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Iterator[Any]:
    """The broker leads what has no leader and what it may lead."""
    rules = ReplicaRules(image, schema, coming=[broker_id])
    return updates(
        rules, _places(image, lambda partition: not partition.has_leader and broker_id in partition.replicas)
    )


def begin_controlled_shutdown(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Iterator[Any]:
    """The broker leads nothing and is in no ISR, but serves those that do not know it yet."""
    broker = image.cluster.brokers[broker_id]
    if not broker.in_controlled_shutdown:
        yield _change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)
    yield from leave(image, schema, broker_id)


def leave(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Iterator[Any]:
    """The broker leaves every ISR, and others lead; it stays eligible where too few are left (KIP-966)."""
    rules = ReplicaRules(image, schema, going=[broker_id])
    return updates(rules, _places(image, lambda partition: broker_id in partition.isr), removed=[broker_id])


def crashed(image: MetadataImage, schema: ConfigSchema, broker_id: int, *, keeps_alone: bool = False) -> Iterator[Any]:
    """The broker may have lost records: it leaves every ISR, and is eligible nowhere (KIP-966).

    With `keeps_alone` it stays eligible where it is the only replica: no other can have more.
    """

    def is_affected(partition: PartitionRegistration) -> bool:
        return broker_id in partition.isr or (broker_id in partition.elr and not keeps(partition))

    def keeps(partition: PartitionRegistration) -> bool:
        return keeps_alone and len(partition.replicas) == 1

    rules = ReplicaRules(image, schema, going=[broker_id])
    for topic, index in _places(image, is_affected):
        unclean = () if keeps(topic.partitions[index]) else (broker_id,)
        yield from updates(rules, [(topic, index)], removed=[broker_id], unclean=unclean)


def unregister(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> list[Any]:
    """The broker leaves every ISR, and is no part of the cluster any more. Its replicas stay assigned."""
    rules = ReplicaRules(image, schema, going=[broker_id])
    places = _places(image, lambda partition: broker_id in partition.isr or broker_id in partition.elr)
    records = list(updates(rules, places, removed=[broker_id]))
    broker = image.cluster.brokers[broker_id]
    return [*records, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)]


def directories_failed(
    image: MetadataImage, schema: ConfigSchema, broker_id: int, offline: Collection[UUID | None]
) -> list[Any]:
    """Replicas in directories that are newly offline leave their ISR, and lead nothing (KIP-858)."""
    broker = image.cluster.brokers[broker_id]
    failed = [directory for directory in broker.directories if directory in offline]
    if not failed:
        return []

    def is_affected(partition: PartitionRegistration) -> bool:
        return (broker_id, True) in zip(
            partition.replicas, (directory in failed for directory in partition.directories), strict=False
        )

    rules = ReplicaRules(image, schema, going=[broker_id])
    left = tuple(directory for directory in broker.directories if directory not in failed)
    records = list(updates(rules, _places(image, is_affected), removed=[broker_id]))
    return [*records, _change(broker, log_dirs=left)]


def needs_steps(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> bool:
    """Whether `leave` changes more partitions than one decision may."""
    return next(islice(leave(image, schema, broker_id), MOST_IN_A_STEP, None), None) is not None


def leads_something(image: MetadataImage, broker_id: int) -> bool:
    """Whether any partition has the broker as its leader."""
    return next(_places(image, lambda partition: partition.leader == broker_id), None) is not None


def updates(
    rules: ReplicaRules, places: Iterable[Place], *, removed: Sequence[int] = (), unclean: Sequence[int] = ()
) -> Iterator[Any]:
    """Records for those of the partitions that change once `removed` are out of their ISR.

    `unclean` are brokers that came back after a crash.
    """
    for topic, index in places:
        change = PartitionChange(rules, topic, index).without(removed)
        change.unclean = frozenset(unclean)
        if rules.may_elect_uncleanly(topic.name):
            change.election = Election.UNCLEAN
        record = change.record()
        if record is not None:
            yield record


def elect_uncleanly(image: MetadataImage, schema: ConfigSchema, most: int) -> list[Any]:
    """Leaders for partitions that have none, where `unclean.leader.election.enable` allows it; at most so many."""
    rules = ReplicaRules(image, schema)
    records: list[Any] = []
    for topic, index in _places(image, lambda partition: not partition.has_leader):
        if rules.may_elect_uncleanly(topic.name):
            records += updates(rules, [(topic, index)])
            if len(records) >= most:
                break
    return records


def elect_preferred(image: MetadataImage, schema: ConfigSchema, most: int) -> list[Any]:
    """The first replica as leader wherever it may be and is not; at most so many changes."""
    rules = ReplicaRules(image, schema)
    records: list[Any] = []
    for topic, index in _places(image, lambda partition: partition.leader != partition.replicas[0]):
        change = PartitionChange(rules, topic, index)
        change.election = Election.PREFERRED
        record = change.record()
        if record is not None:
            records.append(record)
            if len(records) >= most:
                break
    return records


def image_after(image: MetadataImage, records: Iterable[Any]) -> MetadataImage:
    """The image with these records, for a decision of several steps."""
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset, image.epoch, image.timestamp_ms)


def _places(image: MetadataImage, matches: Callable[[PartitionRegistration], bool]) -> Iterator[Place]:
    for topic in image.topics.sorted():
        for index, partition in topic.in_order():
            if matches(partition):
                yield topic, index


def _change(broker: BrokerRegistration, **changed: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **changed)
