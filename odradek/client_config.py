"""How clients are configured for a broker of a test."""

from __future__ import annotations

from typing import Any

KINDS = ("aiokafka", "confluent", "kafka-python", "java")
REFRESH_MS = 1_000
"""How often clients ask for topics and leaders, so that they see new ones soon."""
RETRY_MS = 20
"""How soon they try again: the broker is near, and nobody else waits for it."""

_OF_LIBRDKAFKA: dict[str, Any] = {
    "topic.metadata.refresh.interval.ms": REFRESH_MS,
    "retry.backoff.ms": RETRY_MS,
    "reconnect.backoff.ms": RETRY_MS,
    "reconnect.backoff.max.ms": 10 * RETRY_MS,
}
_OF_JAVA: dict[str, Any] = {
    "metadata.max.age.ms": REFRESH_MS,
    "retry.backoff.ms": RETRY_MS,
    "reconnect.backoff.ms": RETRY_MS,
    "reconnect.backoff.max.ms": 10 * RETRY_MS,
}
_SHARED: dict[str, dict[str, Any]] = {
    "aiokafka": {"metadata_max_age_ms": REFRESH_MS, "retry_backoff_ms": RETRY_MS},
    "confluent": _OF_LIBRDKAFKA,
    "kafka-python": {name.replace(".", "_"): value for name, value in _OF_JAVA.items()},
    "java": _OF_JAVA,
}


def client_config(bootstrap_servers: str, kind: str, **more: Any) -> dict[str, Any]:
    """What producers, consumers and admin clients of a kind are given; `more` is added.

    Raises ValueError for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}: expected one of {', '.join(KINDS)}")
    separator = "_" if kind in ("aiokafka", "kafka-python") else "."
    return {f"bootstrap{separator}servers": bootstrap_servers, **_SHARED[kind], **more}
