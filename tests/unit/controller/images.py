"""Images for tests of decisions: made from records, as the metadata log has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kio.schema.create_topics.v7.response import CreatableTopicConfigs

from controller.decision import Decision, Surroundings
from metadata.configs import ResourceType
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from protocol.errors import InvalidConfiguration
from protocol.metadata.brokers import Endpoint, RegisterBrokerRecord
from protocol.metadata.topics import ConfigRecord, PartitionRecord, TopicRecord

PLAINTEXT = Endpoint(name="PLAINTEXT", host="broker.example", port=9092, security_protocol=0)


def directory(broker_id: int) -> UUID:
    """The id of a broker's only log directory."""
    return UUID(int=1000 + broker_id)


def image_of(*records: Any, image: MetadataImage = EMPTY) -> MetadataImage:
    """The image after these records."""
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1, 0)


def after(image: MetadataImage, decision: Decision[Any]) -> MetadataImage:
    """The image after a decision."""
    return image_of(*decision.records, image=image)


def broker(broker_id: int, **fields: Any) -> RegisterBrokerRecord:
    """A registered broker, up unless `fenced` says otherwise."""
    known: dict[str, Any] = {
        "broker_epoch": 5,
        "incarnation_id": UUID(int=2000 + broker_id),
        "end_points": (PLAINTEXT,),
        "features": (),
        "fenced": False,
        "log_dirs": (directory(broker_id),),
    }
    return RegisterBrokerRecord(broker_id=broker_id, **(known | fields))


def topic(name: str, number: int, *partitions: Sequence[int], configs: Mapping[str, str] = {}) -> list[Any]:
    """A topic with the id `number`, and of each partition the replicas, the first of which leads."""
    records: list[Any] = [TopicRecord(name=name, topic_id=UUID(int=number))]
    records += [partition(number, index, replicas) for index, replicas in enumerate(partitions)]
    return records + [config(ResourceType.TOPIC, name, key, value) for key, value in configs.items()]


def partition(number: int, index: int, replicas: Sequence[int], **fields: Any) -> PartitionRecord:
    """A partition of the topic with the id `number`."""
    known: dict[str, Any] = {
        "replicas": tuple(replicas),
        "directories": tuple(map(directory, replicas)),
        "isr": tuple(replicas),
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return PartitionRecord(topic_id=UUID(int=number), partition_id=index, **(known | fields))


def config(resource_type: int, resource: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)


class Schema:
    """Topics may have `retention.ms`, a number, and `cleanup.policy`, a list; what others may have is not checked."""

    partition_count = 3
    replication_factor = 2

    def check(
        self, resource_type: int, name: str, configs: Mapping[str, str | None], before: Mapping[str, str] = {}
    ) -> None:
        if resource_type != ResourceType.TOPIC:
            return
        unknown = set(configs) - {"retention.ms", "cleanup.policy", "min.insync.replicas"}
        if unknown or not (configs.get("retention.ms") or "0").isdigit():
            raise InvalidConfiguration(f"refused for {name}")

    def known(self, resource_type: int, configs: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in configs.items() if name != "of.an.older.release"}

    def is_list(self, resource_type: int, name: str) -> bool:
        return resource_type == ResourceType.TOPIC and name == "cleanup.policy"

    def default(self, resource_type: int, name: str) -> str:
        return "delete"

    def topic_value(self, configs: Mapping[str, str], name: str) -> str:
        return configs.get(name) or {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}[name]

    def effective_topic_configs(self, configs: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        return tuple(
            CreatableTopicConfigs(name=name, value=value, read_only=False, config_source=1, is_sensitive=False)
            for name, value in configs.items()
        )


def around(*, offline: Iterable[tuple[str, int]] = (), first_id: int = 100) -> Surroundings:
    """Surroundings whose new ids are counted up from `first_id`."""
    numbers = iter(range(first_id, first_id + 1000))
    gone = set(offline)
    return Surroundings(Schema(), lambda: UUID(int=next(numbers)), 1, lambda topic, index: (topic, index) in gone)
