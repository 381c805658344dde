"""The table of endpoints: a line for each subject, whose file has its endpoints."""

from __future__ import annotations

from broker.control import (
    clock,
    cluster,
    exactly_once,
    explain,
    faults,
    groups,
    histories,
    journal,
    record_reads,
    record_writes,
    report,
    reset,
    share_groups,
    snapshots,
    status,
    topics,
    transactions,
)
from broker.control.endpoint import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *status.ENDPOINTS,
    *reset.ENDPOINTS,
    *clock.ENDPOINTS,
    *cluster.ENDPOINTS,
    *faults.ENDPOINTS,
    *groups.ENDPOINTS,
    *share_groups.ENDPOINTS,
    *transactions.ENDPOINTS,
    *journal.ENDPOINTS,
    *explain.ENDPOINTS,
    *report.ENDPOINTS,
    *topics.ENDPOINTS,
    *record_writes.ENDPOINTS,
    *record_reads.ENDPOINTS,
    *exactly_once.ENDPOINTS,
    *histories.ENDPOINTS,
    *snapshots.ENDPOINTS,
)
