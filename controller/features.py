"""UpdateFeatures (KIP-584, KIP-1022; Kafka's `FeatureControlManager`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from controller.decision import ConfigSchema, Decision
from controller.replica_rules import ELR_FEATURE, MIN_ISR, min_isr_record
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.image import MetadataImage
from metadata.settings import KRAFT_VERSION, METADATA_VERSION
from protocol.errors import InvalidUpdateVersion
from protocol.metadata.topics import ConfigRecord, FeatureLevelRecord

SUPPORTED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        KRAFT_VERSION: (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
)
"""The lowest and the highest level of each feature that this release works with."""

DEFAULTS: Mapping[str, int] = MappingProxyType(
    {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
)
"""The levels of a new cluster. Level 0 is the same as not being finalized."""

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
CHANGED_METADATA = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""The levels of `metadata.version` that brought new metadata, which an older level would lose (`MetadataVersion`)."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """One feature of a request; `upgrade_type` is one of the three above."""

    name: str
    level: int
    upgrade_type: int


def decide(
    image: MetadataImage,
    updates: Sequence[FeatureUpdate],
    schema: ConfigSchema,
    *,
    kraft_version: int,
    validate_only: bool,
) -> Decision[bool]:
    """All updates or none; of two for one feature the last counts. Raises InvalidUpdateVersion for a wrong one.

    The response is whether `kraft.version`, whose level is given, is to be raised: no record of the image does that.
    """
    records: list[Any] = []
    raises_kraft_version = False
    for name, each in {each.name: each for each in updates}.items():
        current = kraft_version if name == KRAFT_VERSION else image.features.get(name, 0)
        complaint = _complaint(current, each) or _complaint_of_brokers(image, each)
        if complaint:
            raise InvalidUpdateVersion(f"No feature was changed: {name} cannot be set to {each.level}. {complaint}")
        if each.level == current:
            continue
        if name == KRAFT_VERSION:
            raises_kraft_version = not validate_only
            continue
        records.append(FeatureLevelRecord(name=name, feature_level=each.level))
        if name == ELR_FEATURE and not current:
            records += _minimum_of_cluster(image, schema)
    return Decision([] if validate_only else records, raises_kraft_version)


def _minimum_of_cluster(image: MetadataImage, schema: ConfigSchema) -> Iterator[ConfigRecord]:
    """With eligible leader replicas the cluster has a `min.insync.replicas`, and no broker one of its own (KIP-966)."""
    if MIN_ISR not in image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT):
        yield min_isr_record(CLUSTER_DEFAULT, schema.topic_value({}, MIN_ISR))
    for name in image.configs.names(ResourceType.BROKER):
        if name != CLUSTER_DEFAULT and MIN_ISR in image.configs.of(ResourceType.BROKER, name):
            yield min_isr_record(name, None)


def _complaint(current: int, wanted: FeatureUpdate) -> str | None:
    if wanted.upgrade_type not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        return "The upgrade type must be 1 (upgrade), 2 (safe downgrade) or 3 (unsafe downgrade)."
    if wanted.level < 0:
        return "A level cannot be negative."
    if wanted.name not in SUPPORTED:
        return "There is no such feature." if wanted.level == 0 else "This release does not know the feature."
    lowest, highest = SUPPORTED[wanted.name]
    if not lowest <= wanted.level <= highest:
        return f"This release supports the levels {lowest} to {highest}."
    if wanted.level < current and wanted.upgrade_type == UPGRADE:
        return "A lower level needs the upgrade type of a safe or unsafe downgrade."
    if wanted.level > current and wanted.upgrade_type != UPGRADE:
        return "A higher level needs the upgrade type of an upgrade."
    if wanted.name == KRAFT_VERSION and wanted.level < current:
        return "This feature cannot be downgraded."
    if wanted.name == METADATA_VERSION and any(wanted.level < level <= current for level in CHANGED_METADATA):
        return "The downgrade might lose metadata, so neither a safe nor an unsafe one is made."
    return None


def _complaint_of_brokers(image: MetadataImage, wanted: FeatureUpdate) -> str | None:
    for broker_id in sorted(image.cluster.brokers):
        lowest, highest = image.cluster.brokers[broker_id].features.get(wanted.name, (0, 0))
        if not lowest <= wanted.level <= highest and wanted.level != 0:
            return f"Broker {broker_id} supports the levels {lowest} to {highest}."
    return None
