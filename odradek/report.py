"""What a broker holds and has just done, as a text for the report of a failing test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odradek import journal
from odradek.journal import JournalEntry

MOST_LINES = 20
"""The most lines of topics, and as many of groups and of requests."""

ENTRIES = 300
"""How many entries of the journal are looked at: most are of no interest."""

QUIET = frozenset({"Fetch", "Heartbeat", "ConsumerGroupHeartbeat", "BrokerHeartbeat", "ApiVersions"})
"""Requests that say nothing if they are answered without an error and without records."""

QUESTIONS = frozenset(
    {"Metadata", "FindCoordinator", "DescribeCluster", "DescribeTopicPartitions", "ListOffsets", "OffsetFetch"}
)
"""Requests that change nothing: asked again by the same client, with the same answer, they are told once."""

NO_REPLICA = -1
"""The replica id in a consumer's Fetch."""

Json = Mapping[str, Any]


def text(found: Json) -> str:
    """The text of an answer to `/control/report`."""
    sections = {
        "topics (first offset..end)": list(map(_topic, found["topics"])),
        "groups": [line for group in found["groups"] for line in _group(group)],
        "open transactions": list(map(_transaction, found["transactions"])),
        **({"not known": list(found["unknown"])} if found.get("unknown") else {}),
        **_of_journal(found["journal"]),
    }
    return _joined(sections)


def journal_text(found: Json) -> str:
    """The text of an answer to `/control/journal`."""
    return _joined(_of_journal(found))


def _of_journal(found: Json) -> dict[str, list[str]]:
    entries = journal.read(found)
    warnings = [str(entry) for entry in entries if entry.kind == "warning"]
    return {"last requests": list(_requests(entries)), "warnings": warnings}


def _joined(sections: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(line for name, lines in sections.items() for line in _section(name, lines))


def _section(name: str, lines: Sequence[str]) -> Iterator[str]:
    """The lines under their name; of many the last."""
    if not lines:
        yield f"{name}: none"
        return
    left_out = len(lines) - MOST_LINES
    yield f"{name}:" if left_out <= 0 else f"{name} (the last {MOST_LINES} of {len(lines)} lines):"
    yield from (f"  {line}" for line in lines[-MOST_LINES:])


def _topic(topic: Json) -> str:
    return f"{topic['topic']}: " + ", ".join(map(_partition, topic["partitions"]))


def _partition(one: Json) -> str:
    if one.get("unknown"):
        return f"{one['partition']}: not known ({one['unknown']})"
    held = f" (held at {one['stable']})" if one["stable"] != one["end"] else ""
    return f"{one['partition']}: {one['start']}..{one['end']}{held}"


def _group(group: Json) -> Iterator[str]:
    lag = group["lag"]
    behind = ", ".join(map(_behind, (one for one in lag["partitions"] if one["lag"] != 0)))
    total = "not known" if lag["total"] is None else lag["total"]
    yield f"{group['group']}: {group['state']}, lag {total}" + (f" ({behind})" if behind else "")
    for member in group["members"]:
        parts = [f"{topic}-{index}" for topic, indexes in member["assignment"].items() for index in indexes]
        waits = f", waits for the answer to its {member['waits_for']}" if member["waits_for"] else ""
        yield f"  {member['client_id']} ({member['id']}): {', '.join(parts) or 'no partitions'}{waits}"


def _behind(one: Json) -> str:
    where = f"{one['topic']}-{one['partition']}"
    if one["lag"] is None:
        return f"{where}: {one['unknown']}"
    begin = one["start_offset"] if "start_offset" in one else one["committed"]
    return f"{where}: {one['lag']}" + (" never committed" if begin is None else f" from {begin}")


def _transaction(one: Json) -> str:
    where = ", ".join(f"{topic}-{index}" for topic, indexes in one["partitions"].items() for index in indexes)
    return f"{one['transactional_id']}: {one['state']} for {one['open_for']:.1f} s in {where or 'no partition'}"


def _requests(entries: Sequence[JournalEntry]) -> Iterator[str]:
    requests = [entry for entry in entries if entry.kind in ("request", "connection closed")]
    telling = [entry for entry in requests if not _is_quiet(entry)]
    yield from _folded(telling)
    if len(requests) > len(telling):
        yield f"(and {len(requests) - len(telling)} Fetches and heartbeats without records or errors)"


def _folded(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """A line for each; those that only repeat an earlier one are counted there."""
    first: dict[tuple[Any, ...], JournalEntry] = {}
    repeats: dict[int, list[JournalEntry]] = {}
    for entry in entries:
        asked = (entry.client_id, entry.api, entry.version, str(entry.request))
        earlier = first.get(asked)
        if entry.api in QUESTIONS and earlier is not None and _says(earlier) == _says(entry):
            repeats[id(earlier)].append(entry)
        else:
            first[asked] = entry
            repeats[id(entry)] = []
    for entry in entries:
        if (again := repeats.get(id(entry))) is not None:
            yield f"{entry}{f' (and {len(again)} times more, until {again[-1].at})' if again else ''}"


def _says(entry: JournalEntry) -> tuple[Any, ...]:
    return entry.outcome, entry.answer, entry.answer_bytes, entry.error


def _is_quiet(entry: JournalEntry) -> bool:
    asked = entry.request or {}
    if entry.api == "Fetch" and asked.get("replica_state", asked).get("replica_id", NO_REPLICA) != NO_REPLICA:
        return True  # of a follower, whose errors are of every day
    if entry.api not in QUIET or entry.outcome == "connection closed" or (entry.answer is None and entry.answer_bytes):
        return False
    return not _tells(entry.answer or {})


def _tells(value: Any) -> bool:
    """Whether there is an error or a record anywhere in an answer."""
    if isinstance(value, Mapping):
        return any(
            (name.endswith("error_code") and one not in ("NONE", None))
            or (name == "records" and one not in (None, "0 bytes"))
            or _tells(one)
            for name, one in value.items()
        )
    return isinstance(value, list) and any(map(_tells, value))
