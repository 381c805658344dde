"""What of an answer says who may do what: the errors by what they are about, what is shown, and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance.wire import Closed, Silent

_LABELS = (
    "name", "topic", "topic_name", "topic_id", "group_id", "transactional_id", "key", "resource_name", "user",
    "principal", "principal_name", "partition_index", "partition", "partition_id", "index",
)  # fmt: skip
"""Fields that say what a part of an answer is about."""

NONE = "0 NONE"

_PASSED_OVER = frozenset({"brokers", "node_endpoints", "nodes", "configs", "members", "active_producers"})


def outcome(answer: Any, ids: Mapping[str, str]) -> Any:
    """The lines of an answer, sorted; `ids` are the ids of topics by their names."""
    match answer:
        case Closed():
            return "closed"
        case Silent():
            return "silence"
    names = {topic_id: name for name, topic_id in ids.items()}
    return sorted(_lines(answer, (), names)) or ["nothing"]


def _lines(value: Any, trail: tuple[str, ...], ids: Mapping[str, str]) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _lines(each, trail, ids)
    elif isinstance(value, dict):
        trail = (*trail, *(_shown(name, value[name], ids) for name in _LABELS if value.get(name) not in (None, "")))
        found = list(_own(value, trail))
        for name, inner in value.items():
            if isinstance(inner, list) and name not in _PASSED_OVER:
                found += _lines(inner, trail, ids)
        yield from found
        if not found and trail:
            yield "/".join(trail)


def _own(value: dict[str, Any], trail: tuple[str, ...]) -> Iterator[str]:
    about = "/".join(trail)
    for name, code in value.items():
        if name.endswith("error_code") and (name == "error_code" or code != NONE):
            yield f"{about} {code}".strip()
        elif name.endswith("authorized_operations") and code != -(2**31):
            yield f"{about} may {code:b}".strip()
        elif name == "expiry_timestamp" and code <= 0:
            yield f"{about} expires at {code}".strip()
        elif name in ("configs", "members") and code:
            yield f"{about} has {name}"


def _shown(name: str, value: Any, ids: Mapping[str, str]) -> str:
    if name != "topic_id":
        return str(value)
    text = value if isinstance(value, str) else value.hex()
    return "#" + ids.get(text, "none" if not text.strip("0-") else "unknown")
