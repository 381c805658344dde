"""The metrics that clients push (KIP-714): OpenTelemetry's `MetricsData`, in the binary form of Protocol Buffers.

Only numbers are read: gauges and sums, which are all that Kafka's clients send. Other kinds are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from .primitives import Buffer

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
DELTA = 1
"""AggregationTemporality: a sum since the last push."""
LONGEST_VARINT = 10
MOST_FIELDS = 200_000
"""Several times what the largest push of a sound client has; to read so many takes a tenth of a second."""
SIGN_BIT = 1 << 63

Value = int | memoryview
"""The value of a field: a number as its 64 bits say, or bytes."""


class MalformedMetricsError(ValueError):
    """The bytes are no metrics."""


@dataclass(frozen=True, slots=True)
class Point:
    """One number of a metric; `is_sum` if it counts, `is_delta` if since the last push."""

    name: str
    value: float
    attributes: tuple[tuple[str, str], ...]
    is_sum: bool = False
    is_delta: bool = False


def decode_points(data: Buffer) -> Iterator[Point]:
    """The numbers of the metrics, in their order. Raises MalformedMetricsError where it is reached."""
    return _Decoder().points(memoryview(data))


class _Decoder:
    """Reads one push: no more than `MOST_FIELDS` fields of it, however it is made."""

    def __init__(self) -> None:
        self._left = MOST_FIELDS

    def points(self, data: memoryview) -> Iterator[Point]:
        for resource in self._messages(data, 1):
            for scope in self._messages(resource, 2):
                for metric in self._messages(scope, 2):
                    yield from self._of_metric(metric)

    def _of_metric(self, metric: memoryview) -> Iterator[Point]:
        name, gauge, total = "", None, None
        for number, value in self._fields(metric):
            if number == 1:
                name = _text(value)
            elif number == 5:
                gauge = _bytes(value)
            elif number == 7:
                total = _bytes(value)
        if gauge is not None:
            for point in self._messages(gauge, 1):
                yield self._point(name, point, is_sum=False, is_delta=False)
        if total is not None:
            flags = {number: value for number, value in self._fields(total) if number in (2, 3)}
            is_monotonic, is_delta = bool(flags.get(3)), flags.get(2) == DELTA
            for point in self._messages(total, 1):
                yield self._point(name, point, is_sum=is_monotonic, is_delta=is_delta)

    def _point(self, name: str, message: memoryview, *, is_sum: bool, is_delta: bool) -> Point:
        number, attributes = 0.0, []
        for field, value in self._fields(message):
            if field == 4:
                (number,) = struct.unpack("<d", _fixed(value))
            elif field == 6:
                (number,) = struct.unpack("<q", _fixed(value))
            elif field == 7:
                attributes.append(self._attribute(_bytes(value)))
        return Point(name, float(number), tuple(attributes), is_sum, is_delta)

    def _attribute(self, message: memoryview) -> tuple[str, str]:
        key, text = "", ""
        for field, value in self._fields(message):
            if field == 1:
                key = _text(value)
            elif field == 2:
                text = next((_any(kind, part) for kind, part in self._fields(_bytes(value))), "")
        return key, text

    def _messages(self, data: memoryview, number: int) -> Iterator[memoryview]:
        """The messages in the field with this number."""
        return (_bytes(value) for found, value in self._fields(data) if found == number)

    def _fields(self, data: memoryview) -> Iterator[tuple[int, Value]]:
        """The fields of a message: their numbers and values."""
        at = 0
        while at < len(data):
            self._left -= 1
            if self._left < 0:
                raise MalformedMetricsError(f"more than {MOST_FIELDS} fields")
            tag, at = _varint(data, at)
            kind = tag & 7
            value: Value
            if kind == VARINT:
                value, at = _varint(data, at)
            elif kind == BYTES:
                size, at = _varint(data, at)
                value, at = _slice(data, at, size)
            elif kind in (FIXED64, FIXED32):
                value, at = _slice(data, at, 8 if kind == FIXED64 else 4)
            else:
                raise MalformedMetricsError(f"wire type {kind}")
            yield tag >> 3, value


def _any(kind: int, value: Value) -> str:
    """The text of an `AnyValue`; empty for lists and maps."""
    if kind == 1:
        return _text(value)
    if kind == 2:
        return "true" if value else "false"
    if kind == 3 and isinstance(value, int):
        return str(value - 2 * SIGN_BIT if value & SIGN_BIT else value)
    if kind == 4:
        return repr(struct.unpack("<d", _fixed(value))[0])
    return ""


def _slice(data: memoryview, at: int, size: int) -> tuple[memoryview, int]:
    if size > len(data) - at:
        raise MalformedMetricsError(f"a field of {size} bytes where {len(data) - at} are left")
    return data[at : at + size], at + size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & (2 * SIGN_BIT - 1), at + place + 1
    raise MalformedMetricsError("a number that does not end")


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise MalformedMetricsError("a number where a message was expected")
    return value


def _fixed(value: Value) -> memoryview:
    data = _bytes(value)
    if len(data) != 8:
        raise MalformedMetricsError(f"{len(data)} bytes where a number of 8 was expected")
    return data


def _text(value: Value) -> str:
    try:
        return str(_bytes(value), "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedMetricsError("a text that is not UTF-8") from error
