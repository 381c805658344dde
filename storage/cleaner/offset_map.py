"""The latest offset of each key, in bounded memory (Kafka's SkimpyOffsetMap)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from hashlib import blake2b

from protocol.records.batch import BatchHeader
from storage.cleaner.slices import RECORDS_A_STEP, Steps

_DIGEST_BYTES = 24
_ONE_TABLE = 1 << 15
_TABLES = 64
"""A growing large table would hold the interpreter, and so the loop, for a tenth of a second."""
BYTES_PER_KEY = 160
"""The most bytes that an entry takes: a bytes object, an int object, and a slot in a growing table."""
_MOST_FLAGS = 1 << 24


class Kept(Enum):
    """How many of a batch's records stay. ALL is used only for batches without tombstones."""

    NONE = auto()
    SOME = auto()
    ALL = auto()


class OffsetMap:
    """Keys of 24 bytes or more are stored as digests, as all are in Kafka; digests and keys differ in length.

    Attributes:
        capacity: how many keys fit.
        latest_offset: everything up to this offset has been read into the map; -1 at first.
    """

    __slots__ = (
        "_first_flag",
        "_flaggable",
        "_flags",
        "_tables",
        "_tombstones",
        "_unmapped",
        "capacity",
        "latest_offset",
    )

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        """Raises ValueError if not even one key fits."""
        self.capacity = int(memory_bytes // BYTES_PER_KEY * load_factor)
        if self.capacity < 1:
            raise ValueError("log.cleaner.dedupe.buffer.size is too small for a single key")
        self._tables: list[dict[bytes, int]] = [{}]
        self.latest_offset = -1
        self._unmapped: list[tuple[int, int]] = []
        self._tombstones: set[int] = set()
        self._flaggable = True
        self._flags: bytearray | None = None
        self._first_flag = 0

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """Note later records of keys, in the log's order; return False if the map was full before all were noted."""
        if keys and max(map(len, keys)) >= _DIGEST_BYTES:
            keys = [key if len(key) < _DIGEST_BYTES else _digest(key) for key in keys]
        tables = self._tables
        size = len(self) + len(keys)
        if size > self.capacity:
            return self._put_what_fits(keys, offsets)
        if len(tables) == 1:
            if size <= _ONE_TABLE:
                tables[0].update(zip(keys, offsets, strict=True))
                return True
            tables = self._split()
        for key, offset in zip(keys, offsets, strict=True):
            tables[hash(key) % _TABLES][key] = offset
        return True

    def _split(self) -> list[dict[bytes, int]]:
        tables: list[dict[bytes, int]] = [{} for _ in range(_TABLES)]
        for key, offset in self._tables[0].items():
            tables[hash(key) % _TABLES][key] = offset
        self._tables = tables
        return tables

    def _put_what_fits(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        tables = self._tables
        left = self.capacity - len(self)
        for key, offset in zip(keys, offsets, strict=True):
            if not left:
                return False
            table = tables[hash(key) % len(tables)]
            left -= key not in table
            table[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """The latest offset of a key, -1 if it was not seen."""
        if len(key) >= _DIGEST_BYTES:
            key = _digest(key)
        tables = self._tables
        return tables[hash(key) % len(tables)].get(key, -1)

    def supersedes_any(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """Whether any of these keys has a later record than the one at the given offset."""
        if len(self._tables) == 1 and max(map(len, keys), default=0) < _DIGEST_BYTES:
            known = self._tables[0].get
            return any(known(key, -1) > offset for key, offset in zip(keys, offsets, strict=True))
        return any(self.get(key) > offset for key, offset in zip(keys, offsets, strict=True))

    # -- decisions about whole batches

    def note_unmapped(self, first_offset: int, last_offset: int) -> None:
        """Note offsets that were read, but whose keys were not put into the map."""
        self._unmapped.append((first_offset, last_offset))

    def note_tombstone(self, base_offset: int) -> None:
        """Note that the batch at `base_offset` has a tombstone."""
        self._tombstones.add(base_offset)

    def note_record_without_key(self) -> None:
        """Note that there are records without a key: the cleaner must see them again."""
        self._flaggable = False

    def note_disorder(self) -> None:
        """Note that a batch's offsets do not ascend within its range: one flag per offset cannot tell its records."""
        self._flaggable = False

    def flag_latest(self, start: int) -> Steps[None]:
        """Mark the latest record of each key, for `flags_of`; the map must hold all keys from offset `start` on."""
        size = self.latest_offset + 1 - start
        if not self._flaggable or not 0 < size <= _MOST_FLAGS:
            return
        flags = bytearray(size)
        pause_at = RECORDS_A_STEP
        number = 0
        for table in self._tables:
            for offset in table.values():
                if offset <= self.latest_offset:
                    flags[offset - start] = 1
                number += 1
                if number == pause_at:
                    pause_at += RECORDS_A_STEP
                    yield 0
        for first_offset, last_offset in self._unmapped:
            first, end = max(first_offset - start, 0), min(last_offset + 1 - start, size)
            flags[first:end] = b"\x01" * (end - first)
            yield 0
        self._flags, self._first_flag = flags, start

    def flags_of(self, header: BatchHeader) -> bytes | None:
        """One byte per offset delta of a data batch: 1 if the record is its key's latest. None: ask for each key."""
        flags, first = self._flags, header.base_offset - self._first_flag
        if flags is None or first < 0 or header.last_offset > self.latest_offset:
            return None
        return bytes(flags[first : first + header.last_offset_delta + 1])

    def of_batch(self, header: BatchHeader, flags: bytes) -> Kept:
        """How many records of a batch, which is not of an aborted transaction, stay according to its flags."""
        latest = flags.count(1)
        if not latest:
            return Kept.NONE
        if latest == header.record_count and header.base_offset not in self._tombstones:
            return Kept.ALL
        return Kept.SOME


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
