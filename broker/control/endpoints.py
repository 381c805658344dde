"""The table of endpoints: a line for each subject, whose file has its endpoints."""

from __future__ import annotations

from broker.control import explain, groups, journal, report, status, transactions
from broker.control.endpoint import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *status.ENDPOINTS,
    *groups.ENDPOINTS,
    *transactions.ENDPOINTS,
    *journal.ENDPOINTS,
    *explain.ENDPOINTS,
    *report.ENDPOINTS,
)
