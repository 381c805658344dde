"""Which topic names are legal, internal or colliding (Kafka's `Topic`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

GROUP_METADATA_TOPIC_NAME = "__consumer_offsets"
TRANSACTION_STATE_TOPIC_NAME = "__transaction_state"
SHARE_GROUP_STATE_TOPIC_NAME = "__share_group_state"
CLUSTER_METADATA_TOPIC_NAME = "__cluster_metadata"
REMOTE_LOG_METADATA_TOPIC_NAME = "__remote_log_metadata"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC_NAME, TRANSACTION_STATE_TOPIC_NAME, SHARE_GROUP_STATE_TOPIC_NAME})
NEVER_TIERED = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC_NAME}
"""Topics of which `remote.storage.enable` has no effect (`UnifiedLog.isRemoteLogEnabled`)."""

MAX_NAME_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_reason(name: str) -> str | None:
    """Why `name` cannot be the name of a topic, in Kafka's words; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def collision_key(name: str) -> str | None:
    """A key shared by names whose metric names are the same, so that Kafka lets only one of them exist.

    None for a name that cannot collide.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None


def repeated(names: Iterable[str]) -> list[str]:
    """The names that are given more than once, in the order of their first occurrence."""
    return [name for name, times in Counter(names).items() if times > 1]
