"""Histories: what clients sent and were sent, as events, of which anomalies are found.

`history_recorder` has put frames into a file. They become events here (`odradek.history_check` has the table), and
what the logs have now is added.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from broker.node import Node
from broker.replication.partition import Role
from broker.testkit.control.budget import MOST, Budget, SpentError
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values
from broker.testkit.control.history_recorder import histories_of
from broker.testkit.control.topic_reader import READ_BYTES, decode_batches, whole_batches
from broker.testkit.journal_views import decode_answer, topic_name
from protocol.api import messages
from protocol.api.names import error_name
from protocol.api.table import API_BY_NAME
from protocol.errors import KafkaError
from protocol.headers import RequestHeader, parse_request_header
from protocol.primitives import Buffer, DecodeError
from protocol.produce_fetch import produce_messages
from protocol.records.batch import HEADER_SIZE, BatchHeader, advance_sequence, read_header
from protocol.records.build import ControlRecordType, Record, iter_records, read_control_batch

ENDPOINTS = Endpoints()

HISTORY = Parameter("history", Kind.STRING, "the history's name, which its beginning answered", required=True)


PRODUCE, FETCH = API_BY_NAME["produce"], API_BY_NAME["fetch"]
READ_COMMITTED = 1
EVENT_BYTES = 500
"""What an event, or a record of one, takes in memory, about."""
DIGEST_WORK = 10
"""For each byte of a record, of which a text is made that is hashed."""
LONGEST_SHOWN = 40

TopicName = Callable[[Any], str]
Event = dict[str, Any]


def events_of(path: Path, topic_name: TopicName, budget: Budget) -> list[Event]:
    """What the file of a recorder has, as events; blocking. Raises OSError, and SpentError if they cost too much."""
    found: list[Event] = []
    versions: dict[str, RequestHeader] = {}
    with path.open() as lines:
        for text in lines:
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue  # the last line of a process that was killed
            try:
                found += _events(line, versions, topic_name, budget)
            except (DecodeError, ValueError):
                continue  # a request that no broker could read, which got no answer either
    return found


def _events(
    line: dict[str, Any], headers: dict[str, RequestHeader], topic_name: TopicName, budget: Budget
) -> Iterator[Event]:
    budget.keep(EVENT_BYTES)
    match line["kind"]:
        case "began" | "restored":
            yield {"type": line["kind"], "ends": line["ends"]}
        case "deleted":
            yield {"type": "deleted", "topic": line["topic"]}
        case "request":
            frame = base64.b64decode(line["request"])
            header = headers[line["id"]] = parse_request_header(frame)
            yield from _sent(line, header, frame, topic_name, budget)
        case "answer" if line["answer"] is not None and line["id"] in headers:
            yield from _acked(line, headers[line["id"]], topic_name)
        case "fetch" if line["answer"] is not None:
            yield from _read(line, topic_name, budget)


def _sent(
    line: dict[str, Any], header: RequestHeader, frame: bytes, topic_name: TopicName, budget: Budget
) -> Iterator[Event]:
    request = produce_messages.decode_request(header.api_version, memoryview(frame), header.body)
    for key, partitions in request.topics:
        for index, records in partitions:
            if records is None or len(records) < HEADER_SIZE:
                continue
            batch = read_header(records)
            yield {
                "type": "sent",
                "id": _attempt(line["id"], topic_name(key), index),
                "at": line["at"],
                "client": header.client_id or "",
                "connection": line["connection"],
                "topic": topic_name(key),
                "partition": index,
                "producer_id": batch.producer_id,
                "epoch": batch.producer_epoch,
                "sequence": batch.base_sequence,
                "records": [
                    {**described(record, budget), "timestamp": record.timestamp}
                    for record in iter_records(records, batch)
                ],
            }


def _attempt(exchange: str, topic: str, partition: int) -> str:
    return f"{exchange} {topic}-{partition}"


def _acked(line: dict[str, Any], header: RequestHeader, topic_name: TopicName) -> Iterator[Event]:
    response = decode_answer(PRODUCE, header.api_version, base64.b64decode(line["answer"]))
    for topic in response.responses:
        name = topic_name(topic.name if header.api_version < 13 else topic.topic_id)
        for one in topic.partition_responses:
            place = {"id": _attempt(line["id"], name, one.index), "topic": name, "partition": one.index}
            if int(one.error_code) == 0:
                yield {"type": "acked", **place, "offset": one.base_offset}
            else:
                yield {"type": "failed", **place, "error": error_name(one.error_code)}


def _read(line: dict[str, Any], topic_name: TopicName, budget: Budget) -> Iterator[Event]:

    def told(record: Record) -> Event:
        return {"offset": record.offset, **described(record, budget)}

    frame = base64.b64decode(line["request"])
    header = parse_request_header(frame)
    request = messages.decode_request(FETCH, header.api_version, frame[header.body :])
    committed = request.isolation_level == READ_COMMITTED
    response = decode_answer(FETCH, header.api_version, base64.b64decode(line["answer"]))
    for topic in response.responses:
        name = topic_name(topic.topic if header.api_version < 13 else topic.topic_id)
        for one in topic.partitions:
            records = one.records
            if not records or len(records) < HEADER_SIZE:
                continue
            first = read_header(records).base_offset
            aborted = one.aborted_transactions if committed else None
            read, after = decode_batches(records, first, aborted or (), told)
            yield {
                "type": "read",
                "at": line["at"],
                "client": header.client_id or "",
                "connection": line["connection"],
                "topic": name,
                "partition": one.partition_index,
                "from": first,
                "to": after,
                "committed": committed,
                "records": read,
            }


def described(record: Record, budget: Budget) -> Event:
    """The digest of a record's content, and what to show of it. Raises SpentError."""
    budget.spend(DIGEST_WORK * (1 + len(record.key or b"") + len(record.value or b"")))
    budget.keep(EVENT_BYTES)
    if budget.is_spent:
        raise SpentError
    content = repr((record.key, record.value, record.headers)).encode()
    shown = (b"" if record.key is None else record.key + b" = ") + (b"null" if record.value is None else record.value)
    text = shown.decode(errors="backslashreplace")
    short = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    return {"digest": hashlib.blake2b(content, digest_size=8).hexdigest(), "show": short}


class LogContent(NamedTuple):
    """The records and markers of a part of a log, as events have them."""

    records: list[Event]
    markers: list[Event]


async def log_event(node: Node, topic: str, index: int, begin: int, budget: Budget) -> Event | None:
    """What a partition has from offset `begin` on; None if it is gone or offline, or another broker leads it now."""
    partition = node.replicas.get(topic, index)
    if partition is None or partition.role is not Role.LEADER:
        return None
    start, end = max(begin, partition.log_start_offset), partition.high_watermark
    content = LogContent([], [])
    offset = start
    while offset < end:
        try:
            data = await partition.plan_read(offset, READ_BYTES, end, True, READ_BYTES).read()
        except KafkaError:
            return None
        if not data:
            break
        offset = await budget.run(node, partial(_add, data, offset, content, budget))
    return {
        "type": "log",
        "topic": topic,
        "partition": index,
        "start": start,
        "end": end,
        "compacted": partition.log.config.compact,
        "records": content.records,
        "markers": content.markers,
    }


def _add(data: Buffer, offset: int, content: LogContent, budget: Budget) -> int:
    """Add the whole batches at the front; return the offset after them."""
    view = memoryview(data)
    for at, header in whole_batches(view):
        if header.is_control:
            content.markers.extend(_markers(view[at : at + header.size], header))
        else:
            content.records.extend(_records(view, header, at, offset, budget))
        offset = max(offset, header.next_offset)
    return offset


def _records(view: memoryview, header: BatchHeader, at: int, offset: int, budget: Budget) -> Iterator[Event]:
    for record in iter_records(view, header, at):
        if record.offset >= offset:
            sequence = header.base_sequence
            yield {
                "offset": record.offset,
                "producer_id": header.producer_id,
                "epoch": header.producer_epoch,
                "sequence": -1 if sequence < 0 else advance_sequence(sequence, record.offset - header.base_offset),
                "transactional": header.is_transactional,
                **described(record, budget),
            }


def _markers(batch: memoryview, header: BatchHeader) -> Iterable[Event]:
    control = read_control_batch(batch, header)
    if control is not None and control[0] is not None:
        committed = control[0].type is ControlRecordType.COMMIT
        yield {"offset": header.base_offset, "producer_id": header.producer_id, "committed": committed}


def name_of(node: Node) -> TopicName:
    """The name of a topic that is given by its name or its id; the id as text if nobody knows it any more."""
    return lambda key: topic_name(node.cluster.cache.image.topics, key) or str(key)


KEPT_BYTES = 512 << 20
"""Of the events of a history: it is checked as a whole, or not at all."""
WORK = 8 << 30


@ENDPOINTS("POST /histories", "Begin to record what clients send and are sent.")
def _begin(node: Node, _values: Values) -> dict[str, Any]:
    return {"history": histories_of(node).begin()}


@ENDPOINTS("GET /histories/{history}", "What was recorded, as events, and what the logs have now.", HISTORY)
async def _events_of_histories(node: Node, values: Values) -> bytes:
    """What happened since the beginning, and what the partitions have now that were written or read."""
    budget = _new_budget()
    found = await _all_events(node, values["history"], budget)
    return await budget.run(node, lambda: json.dumps({"events": found}).encode())


def _new_budget() -> Budget:
    return Budget(MOST, work=WORK, kept=KEPT_BYTES)


async def _all_events(node: Node, name: str, budget: Budget) -> list[Event]:
    try:
        return await _events_within(node, name, budget)
    except SpentError:
        raise ControlError(
            f"history {name} is too long to be shown: a history must have less than some {KEPT_BYTES // EVENT_BYTES} "
            f"records and {WORK // DIGEST_WORK} bytes of content; end it, and begin one for a part of the test",
            status=413,
        ) from None


async def _events_within(node: Node, name: str, budget: Budget) -> list[Event]:
    recorder = histories_of(node).recorders.get(name)
    if recorder is None:
        raise ControlError(f"there is no history {name!r}", parameter="history", status=404)
    recorder.note_deleted()
    if recorder.failed is not None:
        raise ControlError(f"history {name} has a hole, as it could not be written: {recorder.failed}", status=500)
    found: list[Event] = await budget.run(node, partial(events_of, recorder.path, name_of(node), budget))
    ends: dict[str, dict[str, int]] = {}
    for event in found:
        if event["type"] in ("began", "restored"):
            ends = dict(event["ends"])
        elif event["type"] == "deleted":
            ends.pop(event["topic"], None)
    places = {(event["topic"], event["partition"]) for event in found if event["type"] in ("sent", "read")}
    for topic, index in sorted(places):
        content = await log_event(node, topic, index, ends.get(topic, {}).get(str(index), 0), budget)
        if content is not None:
            found.append(content)
    return found


@ENDPOINTS(
    "GET /histories/{history}/problems",
    "Acknowledged records that are lost, doubled or reordered, and aborted ones that were read.",
    HISTORY,
)
async def _problems(node: Node, values: Values) -> dict[str, Any]:
    """The anomalies of a history so far."""
    from odradek.history_check import find_problems

    budget = _new_budget()
    events = await _all_events(node, values["history"], budget)
    problems = await budget.run(node, partial(find_problems, events))
    return {"problems": [asdict(problem) for problem in problems]}


@ENDPOINTS("DELETE /histories/{history}", "End a history.", HISTORY)
def _end(node: Node, values: Values) -> None:
    histories = histories_of(node)
    if values["history"] not in histories.recorders:
        raise ControlError(f"there is no history {values['history']!r}", parameter="history", status=404)
    histories.end(values["history"])
