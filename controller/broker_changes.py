"""Changes of partitions when brokers come and go, and when their directories fail.

The partitions come from the image's index (`metadata.topics`). What would stay as it is is left out before a change is
made of it, so that a step does not pay again for what the steps before it could not change.

Source: Kafka's `ReplicationControlManager`, `handleBroker...` (KIP-631, KIP-841, KIP-858, KIP-966).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any
from uuid import UUID

from controller.decision import ConfigSchema
from controller.partition_change import Election, PartitionChange
from controller.replica_rules import ReplicaRules
from metadata.brokers import BrokerRegistration
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topics import LEADERLESS, NOT_PREFERRED, PartitionRegistration, TopicImage, eligible, in_sync
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

    def may_lead(topic: TopicImage, partition: PartitionRegistration) -> bool:
        is_known = broker_id in (*partition.isr, *partition.elr, *partition.last_known_elr)
        return is_known or (broker_id in partition.replicas and rules.may_elect_uncleanly(topic.name))

    places = image.topics.where(LEADERLESS)
    return updates(rules, ((topic, index) for topic, index in places if may_lead(topic, topic.partitions[index])))


def begin_controlled_shutdown(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Iterator[Any]:
    """The broker leads nothing and is in no ISR, but serves those that do not know it yet."""
    broker = image.cluster.brokers[broker_id]
    if not broker.in_controlled_shutdown:
        yield _change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)
    yield from leave(image, schema, broker_id)


def leave(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Iterator[Any]:
    """The broker leaves every ISR, and others lead; it stays eligible where too few are left (KIP-966)."""
    rules = ReplicaRules(image, schema, going=[broker_id])
    return updates(rules, _in_sync(rules, broker_id), removed=[broker_id])


def crashed(image: MetadataImage, schema: ConfigSchema, broker_id: int, *, keeps_alone: bool = False) -> Iterator[Any]:
    """The broker may have lost records: it leaves every ISR, and is eligible nowhere (KIP-966).

    With `keeps_alone` it stays eligible where it is the only replica: no other can have more.
    """

    def keeps(partition: PartitionRegistration) -> bool:
        return keeps_alone and len(partition.replicas) == 1

    rules = ReplicaRules(image, schema, going=[broker_id])
    candidates = ((topic, index) for topic, index in _eligible(image, broker_id) if not keeps(topic.partitions[index]))
    for topic, index in chain(_in_sync(rules, broker_id), candidates):
        unclean = () if keeps(topic.partitions[index]) else (broker_id,)
        yield from updates(rules, [(topic, index)], removed=[broker_id], unclean=unclean)


def unregister(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> tuple[list[Any], bool]:
    """The next step of taking a broker out of the cluster, and whether it is the last one, which alone unregisters it.

    It leaves every ISR; its replicas stay assigned. If that takes several steps, the first one lets the broker shut
    down, so that nobody gives it back meanwhile what it has left.
    """
    rules = ReplicaRules(image, schema, going=[broker_id])
    enough = (
        (topic, index)
        for topic, index in _eligible(image, broker_id)
        if len(topic.partitions[index].isr) >= rules.min_isr(topic)  # so nobody has to be eligible any more
    )
    left = list(islice(updates(rules, chain(_in_sync(rules, broker_id), enough), removed=[broker_id]), MOST_IN_A_STEP))
    broker = image.cluster.brokers[broker_id]
    if len(left) == MOST_IN_A_STEP:
        return [*_begin_shutdown(broker), *left], False
    return [*left, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)], True


def directories_failed(
    image: MetadataImage, schema: ConfigSchema, broker_id: int, offline: Collection[UUID | None]
) -> tuple[list[Any], bool]:
    """The next step for directories that are newly offline, and whether it is the last one, which alone notes them.

    Replicas in them leave their ISR, and lead nothing (KIP-858).
    """
    broker = image.cluster.brokers[broker_id]
    failed = [directory for directory in broker.directories if directory in offline]
    if not failed:
        return [], True
    rules = ReplicaRules(image, schema, going=[broker_id])
    places = (
        (topic, index)
        for topic, index in _in_sync(rules, broker_id)
        if topic.partitions[index].directory_of(broker_id) in failed
    )
    changed = list(islice(updates(rules, places, removed=[broker_id]), MOST_IN_A_STEP))
    if len(changed) == MOST_IN_A_STEP:
        return changed, False
    left = tuple(directory for directory in broker.directories if directory not in failed)
    return [*changed, _change(broker, log_dirs=left)], True


def needs_steps(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> bool:
    """Whether there are more partitions to `leave` than one decision may change."""
    places = _in_sync(ReplicaRules(image, schema, going=[broker_id]), broker_id)
    return next(islice(places, MOST_IN_A_STEP, None), None) is not None


def leads_something(image: MetadataImage, broker_id: int) -> bool:
    """Whether any partition has the broker as its leader."""
    places = image.topics.where(in_sync(broker_id))
    return any(topic.partitions[index].leader == broker_id for topic, index in places)


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
    for topic, index in image.topics.where(LEADERLESS):
        if rules.may_elect_uncleanly(topic.name):
            records += updates(rules, [(topic, index)])
            if len(records) >= most:
                break
    return records


def elect_preferred(image: MetadataImage, schema: ConfigSchema, most: int) -> list[Any]:
    """The first replica as leader wherever it may be and is not; at most so many changes."""
    rules = ReplicaRules(image, schema)
    records: list[Any] = []
    for topic, index in image.topics.where(NOT_PREFERRED):
        partition = topic.partitions[index]
        first = partition.replicas[0]
        if first not in (partition.isr or partition.elr) or not rules.is_active(first):
            continue
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


def _in_sync(rules: ReplicaRules, broker_id: int) -> Iterator[Place]:
    """The partitions in whose ISR the broker is, without those that it cannot leave, and does not lead any more."""
    for topic, index in rules.image.topics.where(in_sync(broker_id)):
        partition = topic.partitions[index]
        stays = len(partition.isr) == 1 and not rules.elr_enabled  # the last one does
        if not stays or partition.has_leader or rules.may_elect_uncleanly(topic.name):
            yield topic, index


def _eligible(image: MetadataImage, broker_id: int) -> Iterator[Place]:
    """The partitions of which the broker is an eligible leader replica, and not in sync."""
    for topic, index in image.topics.where(eligible(broker_id)):
        if broker_id not in topic.partitions[index].isr:
            yield topic, index


def _begin_shutdown(broker: BrokerRegistration) -> list[Any]:
    return [_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)] if broker.is_active else []


def _change(broker: BrokerRegistration, **changed: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **changed)
