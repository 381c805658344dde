"""Units, choices and rules that several domains share."""

from __future__ import annotations

from broker.config.definition import Check, Value, at_least

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
LARGEST_RECORD = INT_MAX - 8
"""In bytes: the largest array of a JVM (`Records.SOFT_MAX_ARRAY_LENGTH`)."""
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def _gzip_level(value: Value) -> tuple[object, str] | None:
    right = value == -1 or (isinstance(value, int) and 1 <= value <= 9)
    return None if right else (value, "Value must be between 1 and 9 or equal to -1")


GZIP_LEVEL = Check(_gzip_level, "from 1 to 9, or -1")
LZ4_LEVEL = at_least(1, 17)
ZSTD_LEVEL = at_least(-131072, 22)
