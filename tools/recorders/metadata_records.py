"""Random records of the metadata log, such as a controller could write next (for image_answers.py)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from metadata.configs import ResourceType
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, TopicImage
from protocol.metadata import brokers, credentials, topics, transactions

NAMES = ("a", "b", "c.d", "e")
NODES = range(1, 6)


class RandomRecords:
    """Makes a record that changes an image."""

    def __init__(self, image: MetadataImage, rng: random.Random) -> None:
        self._image = image
        self._rng = rng

    def next(self) -> Any:
        made = None
        while made is None:
            made = self._rng.choices(_MAKERS, _WEIGHTS)[0](self)
        return made

    # -- topics

    def topic(self) -> Any:
        name = self._rng.choice(NAMES)
        if self._image.topics.get(name) is None:
            return topics.TopicRecord(name=name, topic_id=self._id())
        return None

    def remove_topic(self) -> Any:
        topic = self._topic()
        return topic and topics.RemoveTopicRecord(topic_id=topic.id)

    def partition(self) -> Any:
        topic = self._topic()
        if topic is None or topic.partition_count > 3:
            return None
        replicas = self._nodes(1)
        return topics.PartitionRecord(
            topic_id=topic.id,
            partition_id=topic.partition_count,
            replicas=replicas,
            isr=self._some(replicas),
            removing_replicas=self._some(replicas) if self._rng.random() < 0.2 else (),
            adding_replicas=self._some(replicas) if self._rng.random() < 0.2 else (),
            leader=self._rng.choice((*replicas, topics.NO_LEADER)),
            leader_recovery_state=self._rng.choice((0, 0, 1)),
            leader_epoch=self._rng.randrange(3),
            partition_epoch=self._rng.randrange(3),
            directories=self._directories(len(replicas)) if self._rng.random() < 0.9 else (),
            eligible_leader_replicas=self._maybe(self._some(replicas)),
            last_known_elr=self._maybe(self._some(replicas)),
        )

    def partition_change(self) -> Any:
        topic, index, partition = self._partition()
        if partition is None:
            return None
        replicas = self._nodes(1) if self._rng.random() < 0.3 else None
        there = partition.replicas if replicas is None else replicas
        moved = replicas is not None or self._rng.random() < 0.2
        return topics.PartitionChangeRecord(
            topic_id=topic.id,
            partition_id=index,
            isr=self._maybe(self._some(there)),
            leader=self._rng.choice((topics.LEADER_UNCHANGED, partition.leader, topics.NO_LEADER, *there)),
            replicas=replicas,
            removing_replicas=self._maybe(self._some(there)),
            adding_replicas=self._maybe(self._some(there)),
            leader_recovery_state=self._rng.choice((topics.RECOVERY_UNCHANGED, 0, 1)),
            directories=self._directories(len(there) if self._rng.random() < 0.9 else 0) if moved else None,
            eligible_leader_replicas=self._maybe(self._some(there)),
            last_known_elr=self._maybe(self._some(there)),
        )

    def clear_elr(self) -> Any:
        topic = self._topic()
        return topic and topics.ClearElrRecord(topic_name=topic.name)

    def clear_every_elr(self) -> Any:
        return topics.ClearElrRecord(topic_name="")

    # -- nodes

    def register_broker(self) -> Any:
        return brokers.RegisterBrokerRecord(
            broker_id=self._rng.choice(NODES),
            incarnation_id=self._id(),
            broker_epoch=self._rng.randrange(1000),
            end_points=self._end_points(),
            features=self._features(),
            rack=self._rng.choice((None, "r1", "")),
            fenced=self._rng.random() < 0.5,
            in_controlled_shutdown=self._rng.random() < 0.2,
            log_dirs=self._directories(self._rng.randrange(3)),
            cordoned_log_dirs=self._cordoned(),
        )

    def unregister_broker(self) -> Any:
        node_id, epoch = self._broker()
        return epoch and brokers.UnregisterBrokerRecord(broker_id=node_id, broker_epoch=epoch)

    def fence(self) -> Any:
        node_id, epoch = self._broker()
        return epoch and brokers.FenceBrokerRecord(id=node_id, epoch=epoch)

    def unfence(self) -> Any:
        node_id, epoch = self._broker()
        return epoch and brokers.UnfenceBrokerRecord(id=node_id, epoch=epoch)

    def change_broker(self) -> Any:
        node_id, epoch = self._broker()
        return epoch and brokers.BrokerRegistrationChangeRecord(
            broker_id=node_id,
            broker_epoch=epoch,
            fenced=self._rng.choice((-1, 0, 1)),
            in_controlled_shutdown=self._rng.choice((0, 0, 1)),
            log_dirs=self._directories(self._rng.randrange(3)),
            cordoned_log_dirs=self._cordoned(),
        )

    def register_controller(self) -> Any:
        return brokers.RegisterControllerRecord(
            controller_id=self._rng.choice(NODES),
            incarnation_id=self._id(),
            zk_migration_ready=False,
            end_points=self._end_points(),
            features=self._features(),
        )

    def unregister_controller(self) -> Any:
        there = sorted(self._image.cluster.controllers)
        return brokers.UnregisterControllerRecord(controller_id=self._rng.choice(there)) if there else None

    # -- settings

    def config(self) -> Any:
        kind, names = self._rng.choice(
            (
                (ResourceType.TOPIC, sorted(self._image.topics.by_name)),
                (ResourceType.BROKER, ["", *map(str, sorted(self._image.cluster.brokers))]),
                (ResourceType.CLIENT_METRICS, ["m"]),
                (ResourceType.GROUP, ["g"]),
            )
        )
        if not names:
            return None
        return topics.ConfigRecord(
            resource_type=kind,
            resource_name=self._rng.choice(names),
            name=self._rng.choice(("min.insync.replicas", "retention.ms")),
            value=self._rng.choice((None, "1", "2", "")),
        )

    def feature(self) -> Any:
        name, highest = self._rng.choice((("metadata.version", 0), ("group.version", 1), ("share.version", 2)))
        level = self._rng.choice((30, 33)) if not highest else self._rng.randint(0, highest)
        return topics.FeatureLevelRecord(name=name, feature_level=level)

    def quota(self) -> Any:
        types = sorted(self._rng.sample(("user", "client-id", "ip"), self._rng.choice((1, 1, 2))))
        return topics.ClientQuotaRecord(
            entity=tuple(
                topics.QuotaEntity(entity_type=each, entity_name=self._rng.choice((None, "u"))) for each in types
            ),
            key=self._rng.choice(("producer_byte_rate", "request_percentage")),
            value=self._rng.choice((0.0, 1.5, 1e9)),
            remove=self._rng.random() < 0.4,
        )

    def producer_ids(self) -> Any:
        return topics.ProducerIdsRecord(
            broker_id=1, broker_epoch=2, next_producer_id=self._image.next_producer_id + 1000
        )

    # -- credentials

    def scram(self) -> Any:
        return credentials.UserScramCredentialRecord(
            name=self._rng.choice(NAMES),
            mechanism=self._rng.choice((1, 2)),
            salt=self._bytes(),
            stored_key=self._bytes(),
            server_key=self._bytes(),
            iterations=self._rng.randint(4096, 9999),
        )

    def remove_scram(self) -> Any:
        there = sorted(self._image.scram)
        if not there:
            return None
        name, mechanism = self._rng.choice(there)
        return credentials.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)

    def acl(self) -> Any:
        return credentials.AccessControlEntryRecord(
            id=self._id(),
            resource_type=self._rng.randint(2, 7),
            resource_name=self._rng.choice(NAMES),
            pattern_type=self._rng.choice((3, 4)),
            principal="User:" + self._rng.choice(NAMES),
            host="*",
            operation=self._rng.randint(2, 15),
            permission_type=self._rng.choice((2, 3)),
        )

    def remove_acl(self) -> Any:
        there = sorted(self._image.acls)
        return credentials.RemoveAccessControlEntryRecord(id=self._rng.choice(there)) if there else None

    def token(self) -> Any:
        return credentials.DelegationTokenRecord(
            owner="User:o",
            requester="User:r",
            renewers=tuple(self._rng.sample(("User:x", "User:y"), self._rng.randrange(3))),
            issue_timestamp=self._rng.randrange(10**12),
            max_timestamp=self._rng.randrange(10**12),
            expiration_timestamp=self._rng.randrange(10**12),
            token_id=self._rng.choice(NAMES),
        )

    def remove_token(self) -> Any:
        there = sorted(self._image.tokens)
        return credentials.RemoveDelegationTokenRecord(token_id=self._rng.choice(there)) if there else None

    def no_op(self) -> Any:
        return transactions.NoOpRecord()

    # -- parts

    def _id(self) -> UUID:
        return UUID(int=self._rng.randrange(1000, 1 << 40))

    def _bytes(self) -> bytes:
        return self._rng.randbytes(4)

    def _topic(self) -> TopicImage | None:
        there = self._image.topics.sorted()
        return self._rng.choice(there) if there else None

    def _partition(self) -> tuple[Any, int, PartitionRegistration | None]:
        topic = self._topic()
        if topic is None or not topic.partition_count:
            return None, 0, None
        index = self._rng.randrange(topic.partition_count)
        return topic, index, topic.partitions[index]

    def _broker(self) -> tuple[int, int | None]:
        """A broker's id and epoch; the epoch is None if there is none, and never 0."""
        there = [broker for _, broker in sorted(self._image.cluster.brokers.items()) if broker.epoch]
        return (0, None) if not there else ((broker := self._rng.choice(there)).id, broker.epoch)

    def _nodes(self, least: int) -> tuple[int, ...]:
        return tuple(self._rng.sample(NODES, self._rng.randint(least, 3)))

    def _some(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._rng.sample(nodes, self._rng.randint(0, len(nodes))))

    def _maybe(self, value: tuple[int, ...]) -> tuple[int, ...] | None:
        return value if self._rng.random() < 0.5 else None

    def _directories(self, count: int) -> tuple[UUID | None, ...]:
        return tuple(self._rng.choice((None, UUID(int=1), UUID(int=2), self._id())) for _ in range(count))

    def _cordoned(self) -> tuple[UUID | None, ...] | None:
        return self._directories(self._rng.randrange(2)) if self._rng.random() < 0.3 else None

    def _end_points(self) -> tuple[brokers.Endpoint, ...]:
        names = ("PLAINTEXT", "OTHER")[: self._rng.randint(1, 2)]
        port = self._rng.randrange(1, 1 << 16)
        return tuple(brokers.Endpoint(name=each, host="h", port=port, security_protocol=0) for each in names)

    def _features(self) -> tuple[brokers.SupportedFeature, ...]:
        return tuple(
            brokers.SupportedFeature(name=name, min_supported_version=0, max_supported_version=self._rng.randrange(3))
            for name in ("group.version", "share.version")[: self._rng.randrange(3)]
        )


_MAKERS: tuple[Callable[[RandomRecords], Any], ...]
_MAKERS, _WEIGHTS = zip(
    (RandomRecords.topic, 6),
    (RandomRecords.remove_topic, 2),
    (RandomRecords.partition, 12),
    (RandomRecords.partition_change, 16),
    (RandomRecords.clear_elr, 5),
    (RandomRecords.clear_every_elr, 2),
    (RandomRecords.register_broker, 4),
    (RandomRecords.unregister_broker, 1),
    (RandomRecords.fence, 2),
    (RandomRecords.unfence, 2),
    (RandomRecords.change_broker, 4),
    (RandomRecords.register_controller, 2),
    (RandomRecords.unregister_controller, 1),
    (RandomRecords.config, 8),
    (RandomRecords.feature, 3),
    (RandomRecords.quota, 5),
    (RandomRecords.producer_ids, 1),
    (RandomRecords.scram, 3),
    (RandomRecords.remove_scram, 2),
    (RandomRecords.acl, 3),
    (RandomRecords.remove_acl, 2),
    (RandomRecords.token, 3),
    (RandomRecords.remove_token, 2),
    (RandomRecords.no_op, 1),
    strict=True,
)
"""What is made, and how often."""
