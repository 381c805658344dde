"""A record is written that somebody has typed, or one that was read before is written once more.

Null is told from empty; bytes that are no text are typed as base64 or as hex.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.produce.v12.request import PartitionProduceData, ProduceRequest, TopicProduceData

from broker.console.ask import Ask, Done, Values
from broker.console.messages import found_record, wall_ms_of
from broker.console.own_client import ask_at, refusal
from broker.console.topics import seen_topic
from broker.peers.leaders import RETRY_MS
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.record_writes import Produced, distributed
from broker.testkit.inspection.partitions import leader_of
from metadata.acls import ResourceType
from metadata.topics import TopicImage
from odradek.schemas.json_text import json_of
from protocol.metadata.topics import NO_LEADER
from protocol.records.build import Headers, Record, build_batch

LARGEST_BYTES = 1 << 20
"""Of a form: a text may take three times as much there."""

KINDS = ("text", "JSON", "base64", "hex", "null")
HEADER_KINDS = ("text", "base64", "null")
MOST_HEADERS = 20
SPARE_HEADERS = 2
ALL_REPLICAS = -1
TIMEOUT = timedelta(seconds=30)
MOST_LOOKS = 40
"""How often a leader is looked for, each time after a while: two seconds."""


class Typed(NamedTuple):
    """Bytes as a form has them."""

    kind: str
    text: str


def typed(content: bytes | None) -> Typed:
    """Bytes as a form shows them, and gives them back unchanged: browsers change the ends of lines."""
    if content is None:
        return Typed("null", "")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Typed("base64", base64.b64encode(content).decode())
    if any(ord(character) < ord(" ") and character not in "\n\t" for character in text):
        return Typed("base64", base64.b64encode(content).decode())
    return Typed("text", text)


def content_of(kind: str, text: str, parameter: str) -> bytes | None:
    """The bytes that were typed. Raises ControlError."""
    text = text.replace("\r\n", "\n")
    try:
        match kind:
            case "null":
                if text:
                    raise ControlError(f"{parameter}: null has no content: choose text", parameter=parameter)
                return None
            case "base64":
                return base64.b64decode("".join(text.split()), validate=True)
            case "hex":
                return bytes.fromhex(text)
            case "JSON":
                json_of(text)
    except binascii.Error:
        raise ControlError(f"{parameter}: expected base64", parameter=parameter) from None
    except ValueError as error:
        expected = "two hexadecimal digits for each byte" if kind == "hex" else f"JSON: {error}"
        raise ControlError(f"{parameter}: expected {expected}", parameter=parameter) from None
    return text.encode()


async def produce(ask: Ask) -> Values:
    """The form, with the content of a record if one is to be sent again."""
    topic = seen_topic(ask, "topic")
    is_again = bool(ask.text("from_offset")) and ask.rights.allow("fetch", ResourceType.TOPIC, topic.name)
    record = await _record(ask, topic) if is_again else None
    headers = [(name, typed(content)) for name, content in (() if record is None else record.headers)]
    rows = [{"name": name.decode(errors="replace"), "typed": content} for name, content in headers]
    return {
        "title": f"Produce to {topic.name}",
        "topic": topic.name,
        "partition_count": topic.partition_count,
        "from_partition": ask.text("from_partition") if is_again else "",
        "from_offset": ask.text("from_offset") if is_again else "",
        "written": (ask.integer("partition"), ask.integer("offset"))
        if ask.text("done") and ask.text("offset")
        else None,
        "is_hidden": bool(ask.text("from_offset")) and not is_again,
        "key": typed(None if record is None else record.key),
        "value": Typed("text", "") if record is None else typed(record.value),
        "headers": rows + [{"name": "", "typed": Typed("text", "")}] * min(SPARE_HEADERS, MOST_HEADERS - len(rows)),
        "kinds": KINDS,
        "header_kinds": HEADER_KINDS,
        "most_headers": MOST_HEADERS,
    }


async def _record(ask: Ask, topic: TopicImage) -> Record:
    """The record that is to be sent again. Raises ControlError if it cannot be shown whole."""
    given = {"topic": topic.name, "partition": ask.text("from_partition"), "offset": ask.text("from_offset")}
    found = await found_record(replace(ask, given=given), topic)
    if any(found.left_out) or len(found.record.headers) > MOST_HEADERS:
        raise ControlError("this record is too large to be edited here: use odradek consume and produce", status=413)
    return found.record


async def send(ask: Ask) -> Done:
    """Write the record with acks=all, at the leader of its partition."""
    topic = seen_topic(ask, "topic")
    key = content_of(ask.choice("key_kind", KINDS), ask.given.get("key", ""), "key")
    value = content_of(ask.choice("value_kind", KINDS), ask.given.get("value", ""), "value")
    wanted = ask.integer("partition", most=topic.partition_count - 1) if ask.text("partition") else None
    timestamp = wall_ms_of(ask.text("timestamp")) if ask.text("timestamp") else ask.node.local.clock.wall_ms()
    headers = _headers(ask.given)
    (index,) = await distributed(ask.node, topic, [Produced(key, value, headers, wanted, timestamp)])
    batch = build_batch([Record(0, int(timestamp), key, value, headers)])
    offset = await _append(ask, topic.name, index, bytes(batch))
    is_shown = ask.rights.allow("fetch", ResourceType.TOPIC, topic.name)
    return Done({"topic": topic.name, "partition": index, "offset": offset}, back="" if is_shown else "produce")


def _headers(given: Mapping[str, str]) -> Headers:
    """Of the rows of the form those that have a name or a content. Raises ControlError."""
    found = []
    for row in range(MOST_HEADERS):
        name, text = given.get(f"header_name_{row}", ""), given.get(f"header_{row}", "")
        kind = given.get(f"header_kind_{row}", "text")
        if not name and not text and kind == "text":
            continue
        if kind not in HEADER_KINDS:
            raise ControlError(f"header {name}: expected one of {', '.join(HEADER_KINDS)}", parameter="header")
        found.append((name.encode(), content_of(kind, text, f"header {name}")))
    return tuple(found)


async def _append(ask: Ask, topic: str, index: int, batch: bytes) -> int:
    """The record's offset. Raises ControlError, KafkaError."""
    data: Any = PartitionProduceData(index=index, records=batch)
    topics = (TopicProduceData(name=topic, partition_data=(data,)),)
    request = ProduceRequest(transactional_id=None, acks=ALL_REPLICAS, timeout=TIMEOUT, topic_data=topics)
    for _ in range(MOST_LOOKS):
        leader = leader_of(ask.node, (topic, index))
        answer = await ask_at(ask, None if leader == NO_LEADER else leader, request)
        (one,) = answer.responses[0].partition_responses
        if one.error_code is not ErrorCode.not_leader_or_follower:
            break
        await ask.node.clock.machine.sleep(RETRY_MS)  # this node is yet to hear of the new one
    if one.error_code.value:
        reasons = "; ".join(each.batch_index_error_message or "" for each in one.record_errors)
        raise refusal(one.error_code, reasons or one.error_message, "value")
    return int(one.base_offset)
