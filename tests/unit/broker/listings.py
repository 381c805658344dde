"""Groups and transactional ids to be listed, by a Kafka (`tests.recorders.ask_kafka_listings`) and by a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("kafka_listings.json")
NAMES = [f"name {number * number}" for number in range(60)]
COUNTS = (2, 5, 11, 12, 13, 25, 40, 60)
"""After so many of the names the listings are taken."""


def join_of(group: str) -> dict[str, Any]:
    """A JoinGroup 2."""
    return {
        "group_id": group,
        "session_timeout": 60_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
