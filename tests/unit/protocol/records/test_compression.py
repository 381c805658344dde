"""Codecs: what is packed unpacks, what is cut is refused, and nothing grows beyond its limit."""

from __future__ import annotations

import contextlib
import gzip
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from protocol.records import compression
from protocol.records.compression import Compression, DecompressionError, DecompressionLimitError, compress, decompress

PACKED = [codec for codec in Compression if codec is not Compression.NONE]


@given(st.sampled_from(Compression), st.binary(max_size=300), st.integers(1, 700))
def test_round_trip(codec: Compression, data: bytes, times: int) -> None:
    data *= times
    assert decompress(codec, memoryview(compress(codec, memoryview(data)))) == data


@pytest.mark.parametrize("codec", PACKED)
def test_two_threads_unpack_at_the_same_time(codec: Compression) -> None:
    """The loop checks produced batches while a worker looks for a timestamp, or compacts."""

    def unpacks(seed: int) -> bool:
        chance = random.Random(seed)
        words = [chance.randbytes(9) for _ in range(300)]
        data = b"".join(chance.choices(words, k=400_000))  # so much that the library lets other threads run
        packed = compress(codec, data)
        return all(decompress(codec, packed) == data for _ in range(5))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(unpacks, range(2))) == [True, True]


@pytest.mark.parametrize("codec", PACKED)
def test_every_cut_is_refused(codec: Compression) -> None:
    packed = compress(codec, b"some words " * 30000)
    for cut in {1, 2, 5, 11, len(packed) // 3, len(packed) // 2, len(packed) - 1}:
        with pytest.raises(DecompressionError):
            decompress(codec, packed[:cut])


@pytest.mark.parametrize("codec", PACKED)
def test_the_limit_is_exact(codec: Compression) -> None:
    data = b"abc" * 100_000
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    with pytest.raises(DecompressionLimitError):
        decompress(codec, packed, len(data) - 1)


def test_large_data_may_unpack_to_several_times_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LEAST_LIMIT", 1000)
    dense = b"".join(b"%d" % number for number in range(10_000))
    assert decompress(Compression.GZIP, compress(Compression.GZIP, dense)) == dense
    with pytest.raises(DecompressionLimitError):
        decompress(Compression.GZIP, compress(Compression.GZIP, bytes(len(dense))))


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_does_not_take_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(DecompressionLimitError):
        decompress(codec, bomb, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("codec", PACKED)
def test_little_data_takes_little_memory(codec: Compression) -> None:
    """However much it might unpack to: a broker has many such batches at one time."""
    packed = compress(codec, b"some words")
    decompress(codec, packed)
    tracemalloc.start()
    decompress(codec, packed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


def test_lz4_frames_that_come_in_several_pieces() -> None:
    """One piece is a little larger than the first that is asked for, others are many times larger."""
    for size in (65_536, 65_537, 300_000, 3_000_000):
        packed = compress(Compression.LZ4, bytes(size))
        assert decompress(Compression.LZ4, packed) == bytes(size)
        with pytest.raises(DecompressionError):
            decompress(Compression.LZ4, packed[:-1])


@given(st.sampled_from(PACKED), st.binary(max_size=100))
def test_garbage_raises_nothing_else(codec: Compression, data: bytes) -> None:
    with contextlib.suppress(DecompressionError):
        assert len(decompress(codec, data, 1000)) <= 1000


@pytest.mark.parametrize(
    ("codec", "levels"), [(Compression.GZIP, (1, 9)), (Compression.LZ4, (1, 17)), (Compression.ZSTD, (-5, 19))]
)
def test_levels(codec: Compression, levels: tuple[int, int]) -> None:
    data = b"".join(b"line %d of some text\n" % (i * i) for i in range(5000))
    quick, dense = (compress(codec, data, level) for level in levels)
    assert len(dense) < len(quick)
    assert decompress(codec, quick) == decompress(codec, dense) == data


def test_the_frames_are_standard() -> None:
    data = b"some words " * 1000
    assert gzip.decompress(compress(Compression.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Compression.LZ4, data)) == data
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(Compression.ZSTD, data)) == data


def test_snappy_is_framed_as_by_snappy_java() -> None:
    packed = compress(Compression.SNAPPY, bytes(40_000))
    assert packed[:16] == b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"
    first = int.from_bytes(packed[16:20], "big")
    second = int.from_bytes(packed[20 + first : 24 + first], "big")
    assert len(packed) == 24 + first + second


@pytest.mark.parametrize("behind", [0, 1, 2, 3])
def test_fewer_bytes_behind_the_last_snappy_block_than_a_size_are_its_end(behind: int) -> None:
    packed = compress(Compression.SNAPPY, b"some data" * 10)
    assert decompress(Compression.SNAPPY, packed + b"\xff" * behind) == b"some data" * 10


def test_a_size_behind_the_last_snappy_block_is_one_more_block() -> None:
    with pytest.raises(DecompressionError):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"some data" * 10) + b"\xff" * 4)


FROM_KAFKA = [
    (
        Compression.GZIP,
        b"".join(b"\x0e\0\0%c\x02k\0\0" % (2 * delta) for delta in range(20)),
        "1f8b08000000000000ff2dc5c10680401400c0274992276b254992f473fdffbd62e6321911cd13915f6eddb9f7e0d1e9c9c5d5b317af"
        "debcfbf0e9cbf7ff0bf804fa53a0000000",
    ),
    (
        Compression.ZSTD,
        b"".join(
            b"\x18\0\0%c\x02k\n%s\0" % (2 * delta, word) for delta, word in enumerate((b"gamma", b"delta", b"alpha"))
        ),
        "28b52ffd005838010018000000026b0a67616d6d610018000002026b0a64656c74610018000004026b0a616c70686100010000",
    ),
]


@pytest.mark.parametrize(("codec", "data", "packed"), FROM_KAFKA)
def test_gzip_and_zstd_give_the_bytes_that_kafka_wrote(codec: Compression, data: bytes, packed: str) -> None:
    assert compress(codec, data).hex() == packed


@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 3_000_000])
@pytest.mark.parametrize("level", [1, 9, 12])
def test_lz4_without_its_package_is_the_same_format(size: int, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (b"odradek %d " * 400_000)[:size]
    known = compress(Compression.LZ4, data, level)
    monkeypatch.setattr(compression, "lz4_frame", None)
    assert decompress(Compression.LZ4, known) == data
    own = compress(Compression.LZ4, data, level)
    assert decompress(Compression.LZ4, own) == data
    assert lz4.frame.decompress(own) == data
    with pytest.raises(DecompressionError):
        decompress(Compression.LZ4, own[:-1])
    if size:
        with pytest.raises(DecompressionLimitError):
            decompress(Compression.LZ4, own, size - 1)
