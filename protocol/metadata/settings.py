"""Records of what operators set: configurations, feature levels and quotas; and of the blocks of producer ids."""

from __future__ import annotations

from ..declared import Bool, Float64, Int8, Int16, Int32, Int64, String, record


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
