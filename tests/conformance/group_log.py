"""What a group has written into `__consumer_offsets`, byte for byte but for what each broker makes up."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from coordinator.runtime.runtime import partition_for
from tests.conformance.consumer_members import OFFSETS_PARTITIONS, Group
from tests.conformance.runner import Topic
from tests.conformance.schema import Reader

LOG = "__consumer_offsets"
CONTROL = 0x20
EPOCH, EXPRESSION, CLASSIC = 3, 16, 2
TARGET = 6
"""Kinds of records that have a hash of topic ids or a time in them."""


class GroupLog:
    """Tells the records that came since it was asked last."""

    def __init__(self, group: Group, *topics: Topic) -> None:
        self.group, self.t, self.topics = group, group.t, topics
        self.partition = partition_for(group.group_id, OFFSETS_PARTITIONS)
        self.next = self._end()
        self._found: list[str] = []

    def _end(self) -> int:
        asked = [{"partition_index": self.partition, "timestamp": -1}]
        answer = self.t.main.call("list_offsets", 5, {"replica_id": -1, "topics": [{"name": LOG, "partitions": asked}]})
        return int(answer["topics"][0]["partitions"][0]["offset"])

    def keep(self, step: str, *, in_order: bool = True) -> None:
        """Not `in_order` where that is the one of ids that the broker made up."""
        self._read()
        self.t.keep(step, self._found if in_order else sorted(self._found))
        self._found = []

    def until(self, kind: int) -> None:
        """Wait for a record that comes after the answer."""

        def came() -> bool:
            self._read()
            return any(one.startswith(f"{kind} ") for one in self._found)

        self.t.until(f"record {kind}", came)

    def _read(self) -> None:
        end = self._end()
        while self.next < end:
            partition = {"partition": self.partition, "fetch_offset": self.next, "partition_max_bytes": 1 << 20}
            topics = [{"topic": LOG, "partitions": [partition]}]
            body = {"max_wait": 500, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "topics": topics}
            data = self.t.main.call("fetch", 11, body)["responses"][0]["partitions"][0]["records"]
            for offset, key, value in records(data):
                if offset >= self.next:
                    self.next = offset + 1
                    self._found += self._told(key, value)

    def _told(self, key: bytes | None, value: bytes | None) -> Iterator[str]:
        group = self.group.group_id.encode()
        if key is None or group not in key or b"scout" in key:
            return
        kind = struct.unpack_from(">h", key)[0]
        if value is not None and kind in (EPOCH, EXPRESSION, CLASSIC):
            value = value[:6] + b"..." + str(len(value)).encode()
        elif value is not None and kind == TARGET and len(value) > 7:
            value = value[:-8] + b"<time>"
        told = "nothing" if value is None else self._readable(value)
        yield f"{kind} {self._readable(key[2:])}: {told}"

    def _readable(self, data: bytes) -> str:
        for topic in self.topics:
            data = data.replace(bytes.fromhex(topic.id), b"<id of " + self._short(topic) + b">")
        for given, name in self.group.names.items():
            data = data.replace(given.encode(), name.encode())
        return data.decode("latin-1")

    def _short(self, topic: Topic) -> bytes:
        return topic.name.removeprefix(self.t.prefix).encode()


def records(data: bytes) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Offsets, keys and values of batches that are not compressed; markers of transactions have no key."""
    pos = 0
    while len(data) - pos > 12 and len(data) - pos >= 12 + struct.unpack_from(">i", data, pos + 8)[0]:
        base, size = struct.unpack_from(">qi", data, pos)
        attributes = struct.unpack_from(">h", data, pos + 21)[0]
        reader = Reader(data[pos + 57 : pos + 12 + size])
        count: int = reader.unpack(">i")
        for _ in range(count):
            offset, key, value = _record(reader)
            yield base + offset, None if attributes & CONTROL else key, value
        pos += 12 + size


def _record(reader: Reader) -> tuple[int, bytes | None, bytes | None]:
    """Its offset after the batch's, its key and its value."""
    length = _zigzag(reader.uvarint())
    end = reader.pos + length
    reader.take(1)  # attributes
    reader.uvarint()  # time
    offset = _zigzag(reader.uvarint())
    key, value = (None if size < 0 else reader.take(size) for size in (_zigzag(reader.uvarint()) for _ in range(2)))
    reader.pos = end
    return offset, key, value


def _zigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)
