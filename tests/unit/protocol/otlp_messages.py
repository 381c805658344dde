"""Makes OpenTelemetry's `MetricsData` in binary form."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from protocol.otlp import DELTA


def varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*data, value))


def field(number: int, data: bytes | str) -> bytes:
    """A field of bytes."""
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & (1 << 64) - 1)


def attribute(key: str, value: str | bool | int | float) -> bytes:
    match value:
        case bool():
            of = number_field(2, value)
        case int():
            of = number_field(3, value)
        case float():
            of = varint(4 << 3 | 1) + struct.pack("<d", value)
        case _:
            of = field(1, value)
    return field(7, field(1, key) + field(2, of))


def point(value: float, attributes: Mapping[str, str | bool | int | float] | None = None) -> bytes:
    is_whole = isinstance(value, int)
    data = varint((6 if is_whole else 4) << 3 | 1) + struct.pack("<q" if is_whole else "<d", value)
    return data + b"".join(attribute(key, of) for key, of in (attributes or {}).items())


def gauge(name: str, *points: bytes) -> bytes:
    return field(1, name) + field(5, b"".join(field(1, one) for one in points))


def counted(name: str, *points: bytes, temporality: int = DELTA, monotonic: bool = True) -> bytes:
    flags = number_field(2, temporality) + number_field(3, monotonic)
    return field(1, name) + field(7, b"".join(field(1, one) for one in points) + flags)


def metrics_data(*metrics: bytes) -> bytes:
    return field(1, field(2, b"".join(field(2, one) for one in metrics)))
