"""Records of topics and partitions, and of what operators set: configurations, feature levels and quotas.

(KIP-631; directories: KIP-858; eligible leader replicas, ELR: KIP-966; blocks of producer ids: KIP-730.)
"""

from __future__ import annotations

from typing import Annotated

from ..declared import Bool, Float64, Int8, Int16, Int32, Int64, Placed, String, Uuid, record

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


@record(2)
class TopicRecord:
    """A topic was created; its partitions follow."""

    name: String
    topic_id: Uuid | None


@record(9)
class RemoveTopicRecord:
    """A topic was deleted, with its partitions and its configuration."""

    topic_id: Uuid | None


@record(3, highest=2)
class PartitionRecord:
    """A partition was created, or, in a snapshot, all that is known of it.

    `directories` has one id for each of `replicas`. `leader_recovery_state` is 1 while a leader recovers from an
    unclean election.
    """

    partition_id: Int32 = -1
    topic_id: Uuid | None
    replicas: tuple[Int32, ...]
    isr: tuple[Int32, ...]
    removing_replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    leader: Int32 = NO_LEADER
    leader_recovery_state: Annotated[Int8, Placed(tag=0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[tuple[Uuid | None, ...], Placed(since=1)]
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, Placed(since=2, tag=1)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, Placed(since=2, tag=2)] = None


@record(5, highest=2)
class PartitionChangeRecord:
    """A change of a partition; None, and the constants of this file, stand for what has not changed.

    The partition epoch rises by one with each such record. The leader epoch does with each that names a leader, even
    if it is the same one.
    """

    partition_id: Int32 = -1
    topic_id: Uuid | None
    isr: Annotated[tuple[Int32, ...] | None, Placed(tag=0)] = None
    leader: Annotated[Int32, Placed(tag=1)] = LEADER_UNCHANGED
    replicas: Annotated[tuple[Int32, ...] | None, Placed(tag=2)] = None
    removing_replicas: Annotated[tuple[Int32, ...] | None, Placed(tag=3)] = None
    adding_replicas: Annotated[tuple[Int32, ...] | None, Placed(tag=4)] = None
    leader_recovery_state: Annotated[Int8, Placed(tag=5)] = RECOVERY_UNCHANGED
    directories: Annotated[tuple[Uuid | None, ...] | None, Placed(since=1, tag=8)] = None
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, Placed(since=2, tag=6)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, Placed(since=2, tag=7)] = None


@record(28)
class ClearElrRecord:
    """The eligible leader replicas of a topic were cleared; of all topics if the name is empty."""

    topic_name: String = ""


@record(4)
class ConfigRecord:
    """One configuration of a resource; without a value it is no longer set."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@record(12)
class FeatureLevelRecord:
    """The finalized level of a feature; 0 means that it is not finalized (KIP-584)."""

    name: String
    feature_level: Int16


@record()
class QuotaEntity:
    """A part of an entity with quotas: its type and name; without a name it is the type's default."""

    entity_type: String
    entity_name: String | None


@record(14)
class ClientQuotaRecord:
    """One quota of an entity, set or removed (KIP-546)."""

    entity: tuple[QuotaEntity, ...]
    key: String
    value: Float64 = 0.0
    remove: Bool = False


@record(15)
class ProducerIdsRecord:
    """A broker was given a block of producer ids; `next_producer_id` begins the block after it (KIP-730)."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64
