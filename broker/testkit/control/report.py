"""What was asked and answered, why nothing is read, and all of it for the report of a failing test.

And whether each record of a topic led to exactly one of another.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from broker.node import Node
from broker.testkit.control.budget import MOST, Budget
from broker.testkit.control.endpoint import (
    DEFAULT_TIMEOUT_S,
    TIMED_OUT,
    TIMEOUT,
    Changes,
    ControlError,
    Endpoints,
    Kind,
    Parameter,
    Values,
    until,
)
from broker.testkit.control.groups import group_json, lag_json
from broker.testkit.control.record_reads import MOST_RECORDS, reader_of
from broker.testkit.control.record_writes import as_json
from broker.testkit.control.schemas import NONE, schemas_of
from broker.testkit.control.topic_reader import TopicReader
from broker.testkit.control.transactions import transaction_json
from broker.testkit.explain import explain_group, explain_topic, explain_transaction
from broker.testkit.inspection import list_groups, list_transactions
from broker.testkit.inspection.partitions import PartitionView, read_lags, read_topics
from broker.testkit.journal import Entry, Exchange, Journal, journal_of
from broker.testkit.journal_views import entry_json, header_of
from protocol.api.names import API_KEYS, find_api, nearest

ENDPOINTS = Endpoints()

TEXT = Parameter("text", Kind.BOOLEAN, "true: only `text`, for somebody to read")

DEFAULT_LIMIT = 100
SUBJECTS = {"group": explain_group, "topic": explain_topic, "transactional_id": explain_transaction}


ENTRY_WORK = 100
"""For each byte of an entry, of which each may be an object in the answer."""


@ENDPOINTS(
    "GET /journal",
    "The last requests with their answers, connections and warnings, in order; `mark` is for `since`.",
    Parameter("since", Kind.INTEGER, "a mark of an earlier answer: only what came after it", least=0),
    Parameter("limit", Kind.INTEGER, f"so many at most, the newest (default {DEFAULT_LIMIT})", least=0),
    Parameter("client_id", Kind.STRING, "only requests of this client id"),
    Parameter("api", Kind.STRING, "only requests of this API, such as JoinGroup"),
)
async def read_journal(node: Node, values: Values) -> dict[str, Any]:
    """The entries that are wanted, the newest as far as the budget reaches, and a mark of now.

    Raises ControlError without a journal.
    """
    wanted = tuple(deque(wanted_entries(node, values), maxlen=values.get("limit", DEFAULT_LIMIT)))
    mark, budget = _journal(node).mark(), Budget(MOST)
    entries = await budget.run(node, partial(_shown, wanted, budget))
    return {"mark": mark, "entries": entries, "left_out": len(wanted) - len(entries)}


def _shown(wanted: Sequence[Entry], budget: Budget) -> list[dict[str, Any]]:
    """The newest entries, in order; any thread. One of some kB may have thousands of fields."""
    found: list[dict[str, Any]] = []
    for entry in reversed(wanted):
        if budget.is_spent:
            break
        budget.spend(ENTRY_WORK * size_of(entry))
        found.append(entry_json(entry))
    return found[::-1]


def size_of(entry: Entry) -> int:
    """The bytes that are decoded to show an entry, at least one."""
    return 1 + (len(entry.request) + len(entry.answer or b"") if isinstance(entry, Exchange) else 0)


def wanted_entries(node: Node, values: Values) -> Iterator[Entry]:
    """The entries that the parameters since, api and client_id let pass. Raises ControlError."""
    api = values.get("api")
    key = None if api is None else _key(api)
    entries = _journal(node).since(values.get("since"))
    return (entry for entry in entries if _is_wanted(entry, key, values.get("client_id")))


def _key(given: str) -> int:
    api = find_api(given)
    if api is None:
        raise ControlError(
            f"api = {given!r}: expected a name or a number, such as {nearest(given, API_KEYS)}", parameter="api"
        )
    return api.key


def _is_wanted(entry: Entry, key: int | None, client_id: str | None) -> bool:
    """Whether the filters let it pass; what is no request only passes without any."""
    if key is None and client_id is None:
        return True
    if not isinstance(entry, Exchange) or key not in (None, entry.api_key):
        return False
    if client_id is None:
        return True
    header = header_of(entry)
    return header is not None and header.client_id == client_id


def _journal(node: Node) -> Journal:
    journal = journal_of(node)
    if journal is None:
        raise ControlError("this broker keeps no journal", status=409)
    return journal


@ENDPOINTS(
    "GET /explain",
    "Why nothing is read, of a group, a topic or a transactional id; the worst first, each with advice.",
    *(Parameter(subject, Kind.STRING, f"the {subject} to explain") for subject in SUBJECTS),
    TEXT,
)
async def _explain(node: Node, values: Values) -> dict[str, Any]:
    chosen = {subject: name for subject, name in values.items() if subject in SUBJECTS}
    if len(chosen) != 1:
        what = "only one of them" if chosen else "one of them"
        raise ControlError(f"group, topic, transactional_id: expected {what}", parameter=next(iter(chosen), "group"))
    ((subject, name),) = chosen.items()
    findings = await SUBJECTS[subject](node, name)
    answer = {
        "subject": subject,
        "name": name,
        "findings": [asdict(finding) for finding in findings],
    }
    if not values.get("text"):
        return answer
    from odradek.report import Explanation

    return {"text": str(Explanation(answer))}


T = TypeVar("T")


@ENDPOINTS(
    "GET /report",
    "Topics with their offsets, groups with members and lag, open transactions, and the journal.",
    Parameter("since", Kind.INTEGER, "a mark of the journal: only what came after it", least=0),
    Parameter("limit", Kind.INTEGER, f"so many entries of the journal (default {DEFAULT_LIMIT})", least=0),
    TEXT,
)
async def _report(node: Node, values: Values) -> dict[str, Any]:
    if not values.get("text"):
        return await _reported(node, values)
    from odradek.report import ENTRIES, report_text

    return {"text": report_text(await _reported(node, {"limit": ENTRIES, **values}))}


async def _reported(node: Node, values: Values) -> dict[str, Any]:
    now_ms = node.local.clock.wall_ms()
    topics = [topic.name for topic in node.cluster.cache.image.topics.sorted() if not topic.is_internal]
    by_topic: dict[str, list[PartitionView]] = {topic: [] for topic in topics}
    for one in (await read_topics(node, topics)).values():
        by_topic[one.topic].append(one)
    groups, transactions = await list_groups(node), await list_transactions(node)
    lags = await read_lags(node, groups.found)
    shown_topics = _within(by_topic.items(), lambda one: _topic(*one))
    shown_groups = _within(
        zip(groups.found, lags, strict=True),
        lambda one: group_json(one[0]) | {"lag": lag_json(*one)},
    )
    is_open = [each for each in transactions.found if each.is_open]
    shown_transactions = _within(is_open, lambda one: transaction_json(one, now_ms))
    left_out = len(topics) + len(groups.found) + len(is_open)
    left_out -= len(shown_topics) + len(shown_groups) + len(shown_transactions)
    missing = [f"{left_out} more topics, groups and transactions are there than a report shows"] if left_out else []
    return {
        "topics": shown_topics,
        "groups": shown_groups,
        "transactions": shown_transactions,
        "unknown": [*groups.unknown, *transactions.unknown, *missing],
        "journal": await read_journal(node, values),
    }


def _within(some: Iterable[T], shown: Callable[[T], dict[str, Any]]) -> list[dict[str, Any]]:
    """What `shown` makes of each, as far as the budget reaches."""
    budget = Budget(MOST)
    found: list[dict[str, Any]] = []
    for one in some:
        if budget.is_spent:
            break
        found.append(shown(one))
        budget.keep(len(json.dumps(found[-1])))
    return found


def _topic(topic: str, partitions: Sequence[PartitionView]) -> dict[str, Any]:
    return {"topic": topic, "partitions": [_partition(one) for one in partitions]}


def _partition(one: PartitionView) -> dict[str, Any]:
    if one.unknown:
        return {"partition": one.partition, "unknown": one.unknown}
    return {"partition": one.partition, "start": one.start, "end": one.end, "stable": one.stable}


@ENDPOINTS(
    "POST /exactly-once",
    "Wait until each record of a topic led to exactly one committed record of another; status 408 if it did not.",
    Parameter("source", Kind.STRING, "the topic that was read", required=True),
    Parameter("sink", Kind.STRING, "the topic that was written", required=True),
    Parameter("key", Kind.STRING, "what belongs together: key (if not given), value, value.FIELD or headers.NAME"),
    TIMEOUT,
)
async def _require(node: Node, values: Values) -> None:
    """Wait until the sink is right. Raises ControlError if it is not in time, or can never be."""
    from odradek import assertions

    try:
        identify = assertions.identity(values.get("key", "key"))
    except ValueError as error:
        raise ControlError(str(error), parameter="key") from error
    source, sink = (_Topic(node, values[name], name) for name in ("source", "sink"))
    problems: list[str] = []

    async def is_right(changes: Changes) -> bool:
        await sink.read()  # first: what it was made of is then in the source
        changes.follow_once(sink, sink.reader.listen)
        await source.read()
        compare = partial(_compare, source.records, sink.records, identify)
        found, may_mend = await node.replicas.logs.services.workers.call(compare)
        problems[:] = found
        if found and not may_mend:
            raise _wrong(values, found)
        return not found

    if not await until(is_right, values.get("timeout", DEFAULT_TIMEOUT_S)):
        raise _wrong(values, problems)


MOST_BYTES = 256 << 20
"""Of one topic, whose records are all kept to be compared."""


class _Topic:
    """A topic that is read on."""

    def __init__(self, node: Node, name: str, parameter: str) -> None:
        try:
            self.reader: TopicReader = reader_of(node, {"topic": name})
        except ControlError as error:
            raise ControlError(str(error), parameter=parameter, status=error.status) from error
        self.name = name
        self._node, self._schemas = node, NONE
        self.records: list[dict[str, Any]] = []
        self._bytes = 0

    async def read(self) -> None:
        while found := await self.reader.read_on(MOST_RECORDS):
            self._bytes += sum(one.size for one in found)
            if self._bytes > MOST_BYTES:
                raise ControlError(f"{self.name} has more than {MOST_BYTES} bytes: compare smaller topics", status=413)
            self._schemas = await schemas_of(self._node, (one.record for one in found), self._schemas)
            self.records += [as_json(self.name, *record, self._schemas) for record in found]


def _compare(
    source: list[dict[str, Any]], sink: list[dict[str, Any]], identify: Callable[[Any], Hashable]
) -> tuple[list[str], bool]:
    from odradek import assertions
    from odradek.record import Record

    try:
        return assertions.violations(map(Record.of, source), map(Record.of, sink), identify)
    except ValueError as error:
        raise ControlError(str(error), parameter="key") from error


def _wrong(values: Values, problems: list[str]) -> ControlError:
    from odradek import assertions

    return ControlError(assertions.summary(values["source"], values["sink"], problems), status=TIMED_OUT)
