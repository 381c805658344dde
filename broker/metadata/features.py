"""The features of KIP-584 that this node knows, and the levels in force."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protocol.java_collections import in_java_order

METADATA_VERSION = "metadata.version"

SUPPORTED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 27),
        "share.version": (0, 1),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
    }
)
"""The lowest and highest level of each, as Kafka 4.1 reports them and in its order."""

DEFAULTS: Mapping[str, int] = MappingProxyType(
    {
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "metadata.version": 27,
    }
)
"""The levels that a freshly formatted Kafka 4.1 cluster finalizes. Level 0 is the same as not being finalized."""


class Features:
    """Finalized levels and the epoch of their last change (the metadata store's revision)."""

    def __init__(self, levels: Mapping[str, int] = DEFAULTS, epoch: int = 0) -> None:
        self.levels = dict(levels)
        self.epoch = epoch

    def finalized(self) -> dict[str, int]:
        """The levels above 0, in the order of the map of Kafka's `FinalizedFeatures`."""
        others = [name for name, level in self.levels.items() if level > 0 and name != METADATA_VERSION]
        in_order = in_java_order([*others, METADATA_VERSION], capacity=int(len(others) / 0.75 + 1))
        return {name: self.levels[name] for name in in_order}
