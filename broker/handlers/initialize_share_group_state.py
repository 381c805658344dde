"""InitializeShareGroupState 0 (KIP-932): there is no share coordinator that could keep it."""

from __future__ import annotations

from kio.schema.initialize_share_group_state.v0.response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

from broker.coordinators.share_state import refusing

handle, error_response = refusing(
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
    doing="initialize share group state",
    passes_over_empty_topics=True,
)
