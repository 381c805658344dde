"""ReadShareGroupState 0 (KIP-932): there is no share coordinator that could have it."""

from __future__ import annotations

from functools import partial

from kio.schema.read_share_group_state.v0.response import PartitionResult, ReadShareGroupStateResponse, ReadStateResult

from broker.coordinators.share_state import refusing

handle, error_response = refusing(
    ReadShareGroupStateResponse,
    ReadStateResult,
    partial(PartitionResult, state_epoch=0, start_offset=0, state_batches=()),
    doing="read share group state",
)
