"""DeleteShareGroupState 0 (KIP-932): there is no share coordinator that could have it."""

from __future__ import annotations

from kio.schema.delete_share_group_state.v0.response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

from broker.coordinators.share_state import refusing

handle, error_response = refusing(
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
    doing="delete share group state",
)
