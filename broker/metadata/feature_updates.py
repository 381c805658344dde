"""Changes of finalized feature levels (KIP-584, KIP-1022; Kafka's `FeatureControlManager`), kept in the metadata store.

Lowering `metadata.version` below 23 is refused: that is the lowest level that loses none of Kafka 4.1's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.metadata.features import DEFAULTS, SUPPORTED, Features
from broker.metadata.store import MetadataStore
from protocol.errors import InvalidUpdateVersion
from protocol.java_collections import in_java_order

KEY = "/features"

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
LOWEST_LOSSLESS_METADATA_VERSION = 23


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """One feature of an UpdateFeatures request (KIP-584); `upgrade_type` is one of the three above."""

    name: str
    level: int
    upgrade_type: int


async def load(store: MetadataStore) -> Features:
    """The levels in force: the stored ones, or those of a new cluster."""
    stored = await store.get(KEY)
    levels = DEFAULTS if stored is None else json.loads(stored.value)
    return Features(levels, store.revision)


async def update(store: MetadataStore, features: Features, updates: Sequence[FeatureUpdate], node_id: int) -> None:
    """Make all updates durable, then show them in `features`. Raises InvalidUpdateVersion for the first wrong one."""
    levels = updated_levels(features.levels, updates, node_id)
    stored = await store.get(KEY)
    if levels != features.levels:
        value = json.dumps(levels).encode()
        features.epoch = await store.commit({KEY: 0 if stored is None else stored.version}, {KEY: value})
        features.levels = levels


def updated_levels(current: Mapping[str, int], updates: Sequence[FeatureUpdate], node_id: int) -> dict[str, int]:
    """The levels after all updates; level 0 removes a feature. Raises InvalidUpdateVersion.

    If a feature is named twice, the last update counts; if several are wrong, the first in a hash map is reported,
    since Kafka's `QuorumController` puts them into one.
    """
    levels = dict(current)
    by_name = {each.name: each for each in updates}
    for name in in_java_order(by_name):
        each = by_name[name]
        complaint = _complaint(levels.get(each.name, 0), each, node_id)
        if complaint:
            raise InvalidUpdateVersion(
                f"The update failed for all features since the following feature had an error: {complaint}"
            )
        levels[each.name] = each.level
    return {name: level for name, level in levels.items() if level}


def _complaint(current: int, wanted: FeatureUpdate, node_id: int) -> str | None:
    prefix = f"Invalid update version {wanted.level} for feature {wanted.name}."
    if wanted.upgrade_type not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        return f"{prefix} The controller does not support the given upgrade type."
    if wanted.level < 0:
        return f"{prefix} A feature version cannot be less than 0."
    if wanted.name not in SUPPORTED and wanted.level == 0:
        return f"{prefix} Feature {wanted.name} not found."
    if wanted.name not in SUPPORTED:
        return f"{prefix} Local controller {node_id} does not support this feature."
    lowest, highest = SUPPORTED[wanted.name]
    if not lowest <= wanted.level <= highest:
        return f"{prefix} Local controller {node_id} only supports versions {lowest}-{highest}"
    if wanted.level < current and wanted.upgrade_type == UPGRADE:
        return (
            f"{prefix} Can't downgrade the version of this feature without setting the upgrade type to either safe "
            "or unsafe downgrade."
        )
    if wanted.level > current and wanted.upgrade_type != UPGRADE:
        return f"{prefix} Can't downgrade to a newer version."
    if wanted.name == "kraft.version" and wanted.level < current:
        return f"{prefix} Can't downgrade the version of this feature."
    if wanted.name == "metadata.version" and wanted.level < min(current, LOWEST_LOSSLESS_METADATA_VERSION):
        if wanted.upgrade_type == UNSAFE_DOWNGRADE:
            return (
                f"Invalid metadata.version {wanted.level}. Unsafe metadata downgrade is not supported in this version."
            )
        return (
            f"Invalid metadata.version {wanted.level}. Refusing to perform the requested downgrade because it might "
            "delete metadata information."
        )
    return None
