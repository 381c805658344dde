"""Positions in partitions: the start, the end, an offset, a time."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import click
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from odradek.cli.connection import refusals
from odradek.cli.durations import SECONDS
from odradek.cli.general import LARGEST
from odradek.cli.output import Output

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


FORMS = (
    "start, end, an offset, -N for N before the end, a time (2026-01-31T12:00:00Z, @MILLISECONDS) or how long ago "
    "(-90s, -15m, -2h, -7d)"
)


class PositionType(click.ParamType):  # type: ignore[type-arg]  # before click 8.2 it takes none
    """`start`, `end`, an offset, or a time; the value is an OffsetSpec, or an int: -N is N before the end."""

    name = "position"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value in ("start", "earliest", "beginning"):
            return OffsetSpec.earliest()
        if value in ("end", "latest"):
            return OffsetSpec.latest()
        if re.fullmatch(r"-?[0-9]{1,19}", value) and abs(int(value)) <= LARGEST:
            return int(value)
        at = _milliseconds(value)
        if at is None or not 0 <= at <= LARGEST:
            self.fail(f"{value!r}: expected {FORMS}; offsets up to {LARGEST}, times since 1970", param, ctx)
        return OffsetSpec.for_timestamp(at)


def _milliseconds(text: str) -> int | None:
    """The time since 1970; None for a text that is no time. What is longer ago than 1970 is 1970."""
    if re.fullmatch(r"@[0-9]{1,19}", text):
        return int(text[1:])
    ago = re.fullmatch(r"-([0-9]{1,19})([smhd])", text)
    if ago:
        return max(0, int(time.time() * 1000) - int(ago[1]) * SECONDS[ago[2]] * 1000)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


POSITION = PositionType()


def partitions_of(admin: AdminClient, out: Output, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of the topics; a topic that does not exist is told, and left out."""
    found = described(admin, out, topics)
    return [TopicPartition(topic, partition.id) for topic, about in found.items() for partition in about.partitions]


def some_partitions_of(admin: AdminClient, out: Output, topics: Iterable[str]) -> list[TopicPartition]:
    """The same, for a command that ends if there is none."""
    found = partitions_of(admin, out, topics)
    if not found:
        out.end()
    return found


def described(admin: AdminClient, out: Output, topics: Iterable[str]) -> dict[str, Any]:
    """The descriptions of those topics that exist; the others are told."""
    found = {}
    wanted = list(dict.fromkeys(topics))
    if "" in wanted:  # which librdkafka does not ask about
        wanted.remove("")
        with refusals(out, {"topic": "''"}):
            raise KafkaException(KafkaError(KafkaError.TOPIC_EXCEPTION))
    futures = admin.describe_topics(TopicCollection(wanted)) if wanted else {}
    for topic, future in futures.items():
        with refusals(out, {"topic": topic}):
            found[topic] = future.result()
    return found


def led(admin: AdminClient, out: Output, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those that have a leader. The others are told: librdkafka would refuse all for the sake of one."""
    wanted = list(partitions)
    topics = described(admin, out, (place.topic for place in wanted))
    leaders = {
        (topic, partition.id): partition.leader for topic, about in topics.items() for partition in about.partitions
    }
    found = []
    for place in wanted:
        if leaders.get((place.topic, place.partition)) is not None:
            found.append(place)
        elif place.topic in topics:
            known = (place.topic, place.partition) in leaders
            code = KafkaError.LEADER_NOT_AVAILABLE if known else KafkaError.UNKNOWN_TOPIC_OR_PART
            with refusals(out, {"partition": f"{place.topic}-{place.partition}"}):
                raise KafkaException(KafkaError(code))
    return found


def with_numbers(partitions: list[TopicPartition], numbers: Collection[int]) -> list[TopicPartition]:
    """Those with one of these numbers; without a number, all. Raises BadParameter for a number that none has."""
    unknown = set(numbers) - {partition.partition for partition in partitions}
    if unknown:
        topics = ", ".join(sorted({partition.topic for partition in partitions}))
        raise click.BadParameter(f"there is no partition {min(unknown)} of {topics}", param_hint="--partition")
    return [partition for partition in partitions if not numbers or partition.partition in numbers]


def within(admin: AdminClient, out: Output, offsets: Offsets) -> Offsets:
    """The offsets, and in place of those outside of what a partition has, its start or its end.

    Partitions whose start and end are not to be had are told, and left out.
    """
    starts = resolve(admin, out, (TopicPartition(*key) for key in offsets), OffsetSpec.earliest())
    ends = resolve(admin, out, (TopicPartition(*key) for key in starts), OffsetSpec.latest())
    return {key: min(max(offsets[key], starts[key]), end) for key, end in ends.items()}


def resolve(admin: AdminClient, out: Output, partitions: Iterable[TopicPartition], position: Any) -> Offsets:
    """The offset of a position in each partition; a time after the last record is the end.

    Partitions of which it is not to be had are told, and left out.
    """
    wanted = [TopicPartition(ledger.topic, ledger.partition) for ledger in led(admin, out, partitions)]
    if isinstance(position, int) and position < 0:
        starts, ends = (_list(admin, out, wanted, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
        return {key: max(ends[key] + position, start) for key, start in starts.items() if key in ends}
    if isinstance(position, int):
        return {(place.topic, place.partition): position for place in wanted}
    found = _list(admin, out, wanted, position)
    late = [TopicPartition(*key) for key, offset in found.items() if offset < 0]
    return {key: offset for key, offset in found.items() if offset >= 0} | _list(admin, out, late, OffsetSpec.latest())


def _list(admin: AdminClient, out: Output, partitions: list[TopicPartition], spec: OffsetSpec) -> Offsets:
    futures = admin.list_offsets(dict.fromkeys(partitions, spec)) if partitions else {}
    found = {}
    for partition, future in futures.items():
        with refusals(out, {"partition": f"{partition.topic}-{partition.partition}"}):
            found[partition.topic, partition.partition] = future.result().offset
    return found
