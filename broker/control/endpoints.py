"""The table of endpoints: a line for each subject, whose file has its endpoints."""

from __future__ import annotations

from broker.control import groups, journal, status, transactions
from broker.control.endpoint import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *status.ENDPOINTS,
    *groups.ENDPOINTS,
    *transactions.ENDPOINTS,
    *journal.ENDPOINTS,
)
