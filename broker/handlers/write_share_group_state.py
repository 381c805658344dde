"""WriteShareGroupState 0 (KIP-932): there is no share coordinator that could keep it."""

from __future__ import annotations

from kio.schema.write_share_group_state.v0.response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

from broker.coordinators.share_state import refusing

handle, error_response = refusing(
    WriteShareGroupStateResponse,
    WriteStateResult,
    PartitionResult,
    doing="write share group state",
)
