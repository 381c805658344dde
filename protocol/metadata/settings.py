"""Records of what operators set: configurations, feature levels and quotas; and of the blocks of producer ids."""

from __future__ import annotations

from .message import boolean, entities, float64, int8, int16, int32, int64, metadata_record, string


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
