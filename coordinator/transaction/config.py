"""The transaction coordinator's part of the broker's configuration; times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's TransactionStateManagerConfig, with its defaults; a check interval is the time between two searches."""

    max_timeout_ms: int = 15 * 60 * 1000
    timeout_check_interval_ms: int = 10 * 1000
    id_expiration_ms: int = 7 * 24 * 3600 * 1000
    id_expiry_check_interval_ms: int = 3600 * 1000
