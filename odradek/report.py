"""A broker's reports of itself, as values that print well.

`Journal`: what was asked and answered last, who connected, and what the broker warned of. `Explanation`: why a consumer
gets nothing, and what to do. `report_text`: what the broker holds and has just done, for the report of a failing test.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

LONGEST_TEXT = 240
"""How much of a request or an answer a line shows."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry; `str()` of it is a line.

    Attributes:
        kind: "request", "connection opened", "connection closed" or "warning".
        time: seconds since the Unix epoch.
        client: the client's host:port.
        request: the decoded request; None if it was too large to keep.
        answer: the decoded answer; None if there is none, or it was too large to keep.
        outcome: "answered", "waiting", "not answered" or "connection closed".
        took: seconds from the request to its answer; None if it did not have to wait.
        error: why the broker closed the connection.
        text: of a warning, with `level` and `fields`.
    """

    time: float
    kind: str
    client: str | None = None
    listener: str | None = None
    client_id: str | None = None
    api: str | None = None
    version: int | None = None
    request: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    outcome: str | None = None
    took: float | None = None
    error: str | None = None
    request_bytes: int = 0
    answer_bytes: int = 0
    level: str | None = None
    text: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> str:
        """The time of day."""
        return f"{time.strftime('%H:%M:%S', time.localtime(self.time))}.{int(self.time * 1000) % 1000:03d}"

    def __str__(self) -> str:
        at = self.at
        if self.kind == "warning":
            return f"{at} {self.level}: {self.text} {_brief(self.fields)}".rstrip()
        if self.kind != "request":
            return f"{at} {self.kind}: {self.client}"
        who = self.client_id if self.client_id else self.client
        asked = f"{self.request_bytes} bytes" if self.request is None else _brief(self.request)
        return f"{at} {who} {self.api} v{self.version} {asked} -> {self._outcome()}"

    def _outcome(self) -> str:
        took = "" if self.took is None else f" (waited {self.took:.3f} s)"
        if self.outcome != "answered":
            return f"{self.outcome}{f': {self.error}' if self.error else ''}"
        return f"{f'{self.answer_bytes} bytes' if self.answer is None else _brief(self.answer)}{took}"


class Journal(list[JournalEntry]):
    """Entries, the oldest first. `mark` stands for the present: give it as `since` to see what came later."""

    mark: int = 0


def read_journal(answer: Mapping[str, Any]) -> Journal:
    """The journal of an answer of the control interface."""
    found = Journal(JournalEntry(**entry) for entry in answer["entries"])
    found.mark = answer["mark"]
    return found


def _brief(values: Mapping[str, Any]) -> str:
    text = " ".join(_pairs(values))
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    """`name=value` of all that is set, all the way down: `members=[{member_id=a topics=[t,u]} {member_id=b}]`."""
    for name, value in values.items():
        if value not in (None, "", "NONE", [], {}) and name != "throttle_time" and not name.endswith("_base64"):
            yield f"{name}={_nested(value)}"


def _nested(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{' '.join(_pairs(value))}}}"
    if isinstance(value, list):
        between = " " if any(isinstance(item, Mapping) for item in value) else ","
        return f"[{between.join(map(_nested, value))}]"
    return str(value)


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


def report_text(answer: Json) -> str:
    """The text of an answer to `/control/report`."""
    sections = {
        "topics (first offset..end)": list(map(_topic, answer["topics"])),
        "groups": [line for group in answer["groups"] for line in _group(group)],
        "open transactions": list(map(_transaction, answer["transactions"])),
        **({"not known": list(answer["unknown"])} if answer.get("unknown") else {}),
        **_of_journal(answer["journal"]),
    }
    return _joined(sections)


def journal_text(answer: Json) -> str:
    """The text of an answer to `/control/journal`."""
    return _joined(_of_journal(answer))


def _of_journal(answer: Json) -> dict[str, list[str]]:
    entries = read_journal(answer)
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


def _partition(partition: Json) -> str:
    if partition.get("unknown"):
        return f"{partition['partition']}: not known ({partition['unknown']})"
    held = f" (held at {partition['stable']})" if partition["stable"] != partition["end"] else ""
    return f"{partition['partition']}: {partition['start']}..{partition['end']}{held}"


def _group(group: Json) -> Iterator[str]:
    lag = group["lag"]
    behind = ", ".join(map(_behind, (partition for partition in lag["partitions"] if partition["lag"] != 0)))
    total = "not known" if lag["total"] is None else lag["total"]
    yield f"{group['group']}: {group['state']}, lag {total}" + (f" ({behind})" if behind else "")
    for member in group["members"]:
        parts = [f"{topic}-{index}" for topic, indexes in member["assignment"].items() for index in indexes]
        waits = f", waits for the answer to its {member['waits_for']}" if member["waits_for"] else ""
        yield f"  {member['client_id']} ({member['id']}): {', '.join(parts) or 'no partitions'}{waits}"


def _behind(partition: Json) -> str:
    where = f"{partition['topic']}-{partition['partition']}"
    if partition["lag"] is None:
        return f"{where}: {partition['unknown']}"
    begin = partition["start_offset"] if "start_offset" in partition else partition["committed"]
    return f"{where}: {partition['lag']}" + (" never committed" if begin is None else f" from {begin}")


def _transaction(transaction: Json) -> str:
    places = [f"{topic}-{index}" for topic, indexes in transaction["partitions"].items() for index in indexes]
    age = f"{transaction['state']} for {transaction['open_for']:.1f} s"
    return f"{transaction['transactional_id']}: {age} in {', '.join(places) or 'no partition'}"


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
            (name.endswith("error_code") and item not in ("NONE", None))
            or (name == "records" and item not in (None, "0 bytes"))
            or _tells(item)
            for name, item in value.items()
        )
    return isinstance(value, list) and any(map(_tells, value))


SIGNS = {"problem": "!!", "warning": " !", "info": "  "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the broker has found.

    Attributes:
        severity: "problem" (this is why), "warning" (this may be why) or "info" (this is how it is).
        rule: a name for it, such as "held_by_transaction".
        text: a sentence.
        advice: what to do; empty if there is nothing to do.
    """

    severity: str
    rule: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{SIGNS[self.severity]} {self.text}{f'{chr(10)}   -> {self.advice}' if self.advice else ''}"


class Explanation(list[Finding]):
    """The findings, the worst first; `str()` of it is a text to read."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """`answer` is that of the control interface."""
        super().__init__(Finding(**finding) for finding in answer["findings"])
        self.subject = f"{answer['subject']} {answer['name']}"

    @classmethod
    def of(cls, subject: str, name: str, findings: Iterable[Finding]) -> Self:
        """An explanation of what was found in another way."""
        return cls({"subject": subject, "name": name, "findings": [asdict(finding) for finding in findings]})

    @property
    def as_json(self) -> list[dict[str, str]]:
        """The findings, as a program reads them."""
        return [asdict(entry) for entry in self]

    @property
    def problems(self) -> list[Finding]:
        """The findings that say why nothing is read."""
        return [finding for finding in self if finding.severity == "problem"]

    @property
    def rules(self) -> list[str]:
        """The names of what was found."""
        return [finding.rule for finding in self]

    def __str__(self) -> str:
        return "\n".join([self.subject, *(map(str, self) if self else ["   nothing is wrong that the broker can see"])])
