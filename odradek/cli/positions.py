"""Positions in partitions: the start, the end, an offset, a time."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import click
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from odradek.cli.errors import sentence

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FORMS = "start, end, an offset, a time (2026-01-31T12:00:00Z, @MILLISECONDS) or how long ago (-90s, -15m, -2h, -7d)"


class PositionType(click.ParamType[Any]):
    """`start`, `end`, an offset (an int), or a time; the value is an int or an OffsetSpec."""

    name = "position"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value in ("start", "earliest", "beginning"):
            return OffsetSpec.earliest()
        if value in ("end", "latest"):
            return OffsetSpec.latest()
        if value.isascii() and value.isdecimal():
            return int(value)
        if re.fullmatch(r"@\d+", value):
            return OffsetSpec.for_timestamp(int(value[1:]))
        ago = re.fullmatch(r"-(\d+)([smhd])", value)
        if ago:
            return OffsetSpec.for_timestamp(int((time.time() - int(ago[1]) * SECONDS[ago[2]]) * 1000))
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r}: expected {FORMS}", param, ctx)
        return OffsetSpec.for_timestamp(int(at.astimezone().timestamp() * 1000))


POSITION = PositionType()


def partitions_of(admin: AdminClient, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of topics that exist. Raises ClickException for one that does not."""
    found = []
    for topic, future in admin.describe_topics(TopicCollection(list(topics))).items():
        try:
            found += [TopicPartition(topic, partition.id) for partition in future.result().partitions]
        except KafkaException as error:
            raise click.ClickException(f"topic {topic}: {sentence(error)}") from error
    return found


def with_numbers(partitions: list[TopicPartition], numbers: Collection[int]) -> list[TopicPartition]:
    """Those with one of these numbers; without a number, all. Raises BadParameter for a number that none has."""
    unknown = set(numbers) - {one.partition for one in partitions}
    if unknown:
        topics = ", ".join(sorted({one.topic for one in partitions}))
        raise click.BadParameter(f"there is no partition {min(unknown)} of {topics}", param_hint="--partition")
    return [one for one in partitions if not numbers or one.partition in numbers]


def within(admin: AdminClient, offsets: Offsets) -> Offsets:
    """The offsets, and in place of those outside of what a partition has, its start or its end."""
    partitions = [TopicPartition(*key) for key in offsets]
    starts, ends = resolve(admin, partitions, OffsetSpec.earliest()), resolve(admin, partitions, OffsetSpec.latest())
    return {key: min(max(offset, starts[key]), ends[key]) for key, offset in offsets.items()}


def resolve(admin: AdminClient, partitions: Iterable[TopicPartition], position: Any) -> Offsets:
    """The offset of a position in each partition; a time after the last record is the end. Raises KafkaException."""
    wanted = [TopicPartition(one.topic, one.partition) for one in partitions]
    if isinstance(position, int):
        return {(one.topic, one.partition): position for one in wanted}
    found = _list(admin, wanted, position)
    late = [one for one in wanted if found[one.topic, one.partition] < 0]
    return found | (_list(admin, late, OffsetSpec.latest()) if late else {})


def _list(admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec) -> Offsets:
    if not partitions:
        return {}
    futures = admin.list_offsets(dict.fromkeys(partitions, spec))
    return {(one.topic, one.partition): future.result().offset for one, future in futures.items()}
