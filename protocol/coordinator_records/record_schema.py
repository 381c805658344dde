"""What one type of record on an internal topic looks like (Kafka's CoordinatorRecordSerde)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class RecordSchema(Generic[K, V]):
    """A record type. Keys and values start with an int16: the key's is the type, the value's its own version.

    `ids` are the key's versions that mean this type. `encode_key` and `encode_value` return all bytes, in the version
    that Kafka 4.4 would choose; `read_key` and each version's `read_value` start after the int16.
    """

    name: str
    ids: tuple[int, ...]
    encode_key: Callable[[K], bytes]
    read_key: Callable[[bytes], K]
    encode_value: Callable[[V], bytes]
    read_value: Mapping[int, Callable[[bytes], V]]

    def decode_key(self, data: bytes) -> K:
        """Raises ValueError for bytes that are no key of this type."""
        try:
            return self.read_key(data)
        except (struct.error, IndexError, ValueError) as error:
            raise ValueError(f"malformed key of a {self.name} record: {error}") from error

    def decode_value(self, data: bytes) -> V:
        """Raises ValueError for bytes that are no value of this type, or of an unknown version."""
        try:
            version = record_id(data)
            read = self.read_value.get(version)
            if read is None:
                raise ValueError(f"version {version} is not known")
            return read(data)
        except (struct.error, IndexError, ValueError) as error:
            raise ValueError(f"malformed value of a {self.name} record: {error}") from error


def record_id(key: bytes) -> int:
    """The int16 at the start. Raises struct.error if there is none."""
    number: int = _VERSION.unpack_from(key)[0]
    return number
