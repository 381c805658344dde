"""The budget of bytes that threads have decompressed at one time."""

from __future__ import annotations

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from protocol.records import walk
from protocol.records.compression import Compression, DecompressionLimitError, compress, decompress
from protocol.records.walk import FREE_BYTES, SHARE_BYTES, ByteBudget, decompressed

PACKED = [codec for codec in Compression if codec is not Compression.NONE]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> ByteBudget:
    made = ByteBudget(2 * SHARE_BYTES)
    monkeypatch.setattr(walk, "BUDGET", made)
    return made


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize(
    ("size", "taken"), [(FREE_BYTES, 0), (FREE_BYTES + 1, SHARE_BYTES), (SHARE_BYTES + 1, 2 * SHARE_BYTES)]
)
def test_a_section_takes_its_part_of_the_budget_for_as_long_as_it_is_used(
    own: ByteBudget, codec: Compression, size: int, taken: int
) -> None:
    with decompressed(codec, compress(codec, bytes(size))) as section:
        assert (len(section), own.total - own.free) == (size, taken)
    assert own.free == own.total


def test_a_section_larger_than_the_budget_passes_alone(own: ByteBudget) -> None:
    size = own.total + 1
    with decompressed(Compression.ZSTD, compress(Compression.ZSTD, bytes(size))) as section:
        assert (len(section), own.free) == (size, 0)


def test_the_budget_is_given_back_when_the_limit_is_exceeded_or_the_user_fails(own: ByteBudget) -> None:
    packed = compress(Compression.ZSTD, bytes(SHARE_BYTES))
    with pytest.raises(DecompressionLimitError), decompressed(Compression.ZSTD, packed, SHARE_BYTES - 1):
        pass
    with pytest.raises(KeyError), decompressed(Compression.ZSTD, packed):
        raise KeyError
    assert own.free == own.total


def test_nobody_overtakes_a_thread_that_waits_for_bytes() -> None:
    small = ByteBudget(10)
    order: list[str] = []
    at_door = threading.Event()

    def take(size: int, name: str) -> None:
        with small.taken(size):
            order.append(name)

    class Door:
        """Tells when the large one is at the door."""

        def __enter__(self) -> None:
            lock.acquire()
            at_door.set()

        def __exit__(self, *_error: object) -> None:
            lock.release()

    lock = threading.Lock()
    small._door = Door()  # type: ignore[assignment]
    with ThreadPoolExecutor(2) as threads:
        with small.taken(5):
            at_door.clear()
            large = threads.submit(take, 10, "large")
            assert at_door.wait(60)
            following = threads.submit(take, 1, "small")
            assert order == []
        large.result(60)
        following.result(60)
    assert order == ["large", "small"]


@pytest.mark.long
def test_many_threads_together_hold_no_more_than_one_large_section() -> None:
    packed = compress(Compression.ZSTD, bytes(3 * SHARE_BYTES))

    def use(_: int) -> int:
        with decompressed(Compression.ZSTD, packed) as section:
            zeros = section.count(b"\0")
            del section  # as `decompressed` asks for
        return zeros

    tracemalloc.start()
    try:
        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(use, range(6))) == [3 * SHARE_BYTES] * 6
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5 * SHARE_BYTES


@pytest.mark.parametrize("codec", PACKED)
def test_decompressing_needs_little_more_than_the_section(codec: Compression) -> None:
    packed = compress(codec, bytes(SHARE_BYTES))
    tracemalloc.start()
    try:
        decompress(codec, packed)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.5 * SHARE_BYTES
