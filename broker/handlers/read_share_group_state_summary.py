"""ReadShareGroupStateSummary 0 (KIP-932): there is no share coordinator that could have it."""

from __future__ import annotations

from functools import partial

from kio.schema.read_share_group_state_summary.v0.response import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

from broker.coordinators.share_state import refusing

handle, error_response = refusing(
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    partial(PartitionResult, state_epoch=0, leader_epoch=0, start_offset=0),
    doing="read share group state summary",
)
