"""UnregisterController: a controller that has left its quorum is forgotten (KIP-1312)."""

from __future__ import annotations

from controller.decision import Decision
from metadata.image import MetadataImage
from protocol.errors import InvalidRequest, UnsupportedVersion
from protocol.metadata.brokers import UnregisterControllerRecord

FIRST_METADATA_VERSION = 33
"""4.4-IV2, which has the record."""


def decide(image: MetadataImage, controller_id: int, active_id: int) -> Decision[bool]:
    """Whether the controller was registered; it is not any more.

    Raises InvalidRequest for the active controller itself, UnsupportedVersion if the cluster is too old.
    """
    if controller_id == active_id:
        raise InvalidRequest("Controller cannot unregister itself while it is active.")
    if image.metadata_version < FIRST_METADATA_VERSION:
        raise UnsupportedVersion("The current MetadataVersion is too old to support controller unregistration.")
    if controller_id not in image.cluster.controllers:
        return Decision([], False)
    return Decision([UnregisterControllerRecord(controller_id=controller_id)], True)
