"""What the transaction coordinator counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TransactionMetrics:
    """Counts since the start."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0
    expired_ids: int = 0
    marker_retries: int = 0
