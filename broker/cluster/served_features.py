"""The levels of features that a broker of this release can work with in a cluster of other controllers (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from metadata.image import MetadataImage

SERVED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
)
"""The lowest and the highest level of each; of a feature that is not here, no level but 0 is served."""


def unserved(image: MetadataImage) -> list[str]:
    """What the cluster has finalized that this release does not serve, a sentence each."""
    complaints = []
    for name, level in sorted(image.features.items()):
        lowest, highest = SERVED_FEATURES.get(name, (0, 0))
        if not lowest <= level <= highest:
            serves = f"serves the levels {lowest} to {highest}" if highest else "does not serve this feature"
            complaints.append(
                f"the cluster has finalized {name} at level {level}, and this node {serves}: lower it first, for "
                f"instance with `kafka-features.sh downgrade --feature {name}={highest}`"
            )
    return complaints
