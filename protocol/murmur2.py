"""The hash by which Kafka's clients choose partitions (`org.apache.kafka.common.utils.Utils.murmur2`)."""

from __future__ import annotations

_FACTOR = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash, without its sign: 0 to 2**32 - 1."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word ^= word >> 24
        hashed = hashed * _FACTOR & _MASK ^ word * _FACTOR & _MASK
    if length > whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _FACTOR & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of a key (`BuiltInPartitioner.partitionForKey`)."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
