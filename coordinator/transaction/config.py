"""What the broker's configuration says about transactions; times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's TransactionStateManagerConfig, with its defaults; check intervals are those between two searches."""

    max_timeout_ms: int = 15 * 60 * 1000
    timeout_check_interval_ms: int = 10 * 1000
    id_expiration_ms: int = 7 * 24 * 3600 * 1000
    id_expiry_check_interval_ms: int = 3600 * 1000
