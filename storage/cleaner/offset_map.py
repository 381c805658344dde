"""The latest offset of each key, in bounded memory (Kafka's SkimpyOffsetMap)."""

from hashlib import blake2b

_DIGEST_BYTES = 24
_SHARDS = 64  # a large table that grows would hold the interpreter, and so the loop, for a tenth of a second
BYTES_PER_KEY = 160
"""What an entry takes here at most: a bytes object and an int of the interpreter, and its slot in a growing table."""


class OffsetMap:
    """Keys of 24 bytes or more are known by a digest, as all are in Kafka; their lengths keep the two kinds apart.

    Attributes:
        capacity: how many keys fit.
        latest_offset: everything up to here has been read into the map; -1 before.
    """

    __slots__ = ("_count", "_shards", "capacity", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        """Raises ValueError if not even one key fits."""
        self.capacity = int(memory_bytes // BYTES_PER_KEY * load_factor)
        if self.capacity < 1:
            raise ValueError("log.cleaner.dedupe.buffer.size is too small for a single key")
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._count = 0
        self.latest_offset = -1

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """Note a later record of a key; false if the map is full."""
        if self._count >= self.capacity:
            return False
        if len(key) >= _DIGEST_BYTES:
            key = _digest(key)
        shard = self._shards[hash(key) % _SHARDS]
        if key not in shard:
            self._count += 1
        shard[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """The latest offset of a key, -1 if it was not seen."""
        if len(key) >= _DIGEST_BYTES:
            key = _digest(key)
        return self._shards[hash(key) % _SHARDS].get(key, -1)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
