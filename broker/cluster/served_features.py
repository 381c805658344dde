"""The levels of features that a broker of this release can work with in a cluster of other controllers (KIP-584)."""

from __future__ import annotations

from controller.features import SUPPORTED
from metadata.image import MetadataImage


def unserved(image: MetadataImage) -> list[str]:
    """What the cluster has finalized that this release does not serve, a sentence each."""
    complaints = []
    for name, level in sorted(image.features.items()):
        lowest, highest = SUPPORTED.get(name, (0, 0))
        if not lowest <= level <= highest:
            serves = f"serves the levels {lowest} to {highest}" if highest else "does not serve this feature"
            complaints.append(
                f"the cluster has finalized {name} at level {level}, and this node {serves}: lower it first, for "
                f"instance with `kafka-features.sh downgrade --feature {name}={highest}`"
            )
    return complaints
