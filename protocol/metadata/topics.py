"""Records of topics and their partitions (KIP-631; directories: KIP-858; eligible leader replicas, ELR: KIP-966).

Records of what operators set: configurations, feature levels and quotas; and of the blocks of producer ids.
"""

from __future__ import annotations

from uuid import UUID

from .message import (
    boolean,
    entities,
    float64,
    int8,
    int16,
    int32,
    int32_array,
    int64,
    metadata_record,
    string,
    uuid,
    uuid_array,
)

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


@metadata_record(2)
class TopicRecord:
    """A topic was created; its partitions follow."""

    name: str = string()
    topic_id: UUID | None = uuid()


@metadata_record(9)
class RemoveTopicRecord:
    """A topic was deleted, with its partitions and its configuration."""

    topic_id: UUID | None = uuid()


@metadata_record(3, highest=2)
class PartitionRecord:
    """A partition was created, or, in a snapshot, all that is known of it.

    `directories` has one id for each of `replicas`. `leader_recovery_state` is 1 while a leader recovers from an
    unclean election.
    """

    partition_id: int = int32(default=-1)
    topic_id: UUID | None = uuid()
    replicas: tuple[int, ...] = int32_array()
    isr: tuple[int, ...] = int32_array()
    removing_replicas: tuple[int, ...] = int32_array(default=())
    adding_replicas: tuple[int, ...] = int32_array(default=())
    leader: int = int32(default=NO_LEADER)
    leader_recovery_state: int = int8(default=0, tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: tuple[UUID | None, ...] = uuid_array(since=1)
    eligible_leader_replicas: tuple[int, ...] | None = int32_array(default=None, since=2, tag=1)
    last_known_elr: tuple[int, ...] | None = int32_array(default=None, since=2, tag=2)


@metadata_record(5, highest=2)
class PartitionChangeRecord:
    """What has changed in a partition; None, and the constants of this file, stand for what has not.

    The partition epoch rises by one with each such record. The leader epoch does with each that names a leader, even
    if it is the same one.
    """

    partition_id: int = int32(default=-1)
    topic_id: UUID | None = uuid()
    isr: tuple[int, ...] | None = int32_array(default=None, tag=0)
    leader: int = int32(default=LEADER_UNCHANGED, tag=1)
    replicas: tuple[int, ...] | None = int32_array(default=None, tag=2)
    removing_replicas: tuple[int, ...] | None = int32_array(default=None, tag=3)
    adding_replicas: tuple[int, ...] | None = int32_array(default=None, tag=4)
    leader_recovery_state: int = int8(default=RECOVERY_UNCHANGED, tag=5)
    directories: tuple[UUID | None, ...] | None = uuid_array(default=None, since=1, tag=8)
    eligible_leader_replicas: tuple[int, ...] | None = int32_array(default=None, since=2, tag=6)
    last_known_elr: tuple[int, ...] | None = int32_array(default=None, since=2, tag=7)


@metadata_record(28)
class ClearElrRecord:
    """The eligible leader replicas of a topic were cleared; of all topics if the name is empty."""

    topic_name: str = string(default="")


@metadata_record(4)
class ConfigRecord:
    """One configuration of a resource; without a value it is no longer set."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string()


@metadata_record(12)
class FeatureLevelRecord:
    """The finalized level of a feature; 0 means that it is not finalized (KIP-584)."""

    name: str = string()
    feature_level: int = int16()


@metadata_record()
class QuotaEntity:
    """A part of an entity with quotas: its type and name; without a name it is the type's default."""

    entity_type: str = string()
    entity_name: str | None = string()


@metadata_record(14)
class ClientQuotaRecord:
    """One quota of an entity, set or removed (KIP-546)."""

    entity: tuple[QuotaEntity, ...] = entities()
    key: str = string()
    value: float = float64(default=0.0)
    remove: bool = boolean(default=False)


@metadata_record(15)
class ProducerIdsRecord:
    """A broker was given a block of producer ids; `next_producer_id` begins the block after it (KIP-730)."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()
