"""FrameBuffer: whatever the pieces in which they come, frames go out whole and are not written over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.frames import LARGE_STEP_BYTES, LARGEST_SCRATCH_BYTES, SCRATCH_BYTES, SIZE_BYTES, FrameBuffer
from broker.network.request import CloseConnectionError

LIMIT = LARGE_STEP_BYTES + 10_000

lengths = st.one_of(
    st.integers(0, 200),
    st.sampled_from([SCRATCH_BYTES, LARGEST_SCRATCH_BYTES]).flatmap(
        lambda bound: st.integers(bound - SIZE_BYTES - 2, bound + 2)
    ),
    st.just(LIMIT),
)


def of_length(length: int, number: int) -> bytes:
    return (bytes(range(number, number + 7)) * (length // 7 + 1))[:length]


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(SIZE_BYTES, "big") + frame


def receive(frames: FrameBuffer, data: bytes | memoryview, most: int) -> int:
    """As a transport does: what has room, `most` bytes at most. Returns how many."""
    space = frames.space()
    count = min(len(space), len(data), most)
    space[:count] = data[:count]
    frames.received(count)
    return count


@pytest.mark.long
@given(st.lists(lengths, max_size=6), st.data())
def test_frames_come_out_as_they_went_in_and_stay_until_the_next(sizes: list[int], data: st.DataObject) -> None:
    wanted = [of_length(size, number) for number, size in enumerate(sizes)]
    stream = memoryview(b"".join(map(sized, wanted)))
    frames = FrameBuffer(LIMIT)
    got: list[bytes] = []
    last: memoryview | None = None  # somebody looks at it while more is received
    while stream or frames.is_waiting:
        if len(stream) > 0 and data.draw(st.booleans()):
            stream = stream[receive(frames, stream, data.draw(st.sampled_from([1, 5, 1_000, 100_000, LIMIT]))) :]
        elif last is not None:
            got.append(bytes(last))
            last = None
            if data.draw(st.booleans()):
                frames.reuse()
        else:
            last = frames.next()
            if last is None and len(stream):
                assert len(frames.space()) > 0
                stream = stream[receive(frames, stream, LIMIT) :]
    got += [bytes(last)] if last is not None else []
    assert got == wanted
    assert frames.reuse()


def test_what_was_given_out_is_written_over_only_once_it_may_be() -> None:
    frames = FrameBuffer(LIMIT)
    receive(frames, sized(b"one"), LIMIT)
    one = frames.next()
    receive(frames, sized(b"two"), LIMIT)
    assert one == b"one"
    two = frames.next()
    assert (one, two) == (b"one", b"two")
    frames.reuse()
    receive(frames, sized(b"new"), LIMIT)
    assert one == b"new"


def test_an_announcement_alone_takes_no_memory() -> None:
    frames = FrameBuffer(100 * LARGE_STEP_BYTES)
    receive(frames, (100 * LARGE_STEP_BYTES).to_bytes(SIZE_BYTES, "big") + bytes(10), LIMIT)
    assert frames.next() is None
    assert len(frames.space()) < LARGE_STEP_BYTES


@pytest.mark.parametrize("length", [2, 70_000])
def test_the_key_of_the_next_frame_is_known_before_it_is_whole(length: int) -> None:
    frames = FrameBuffer(LIMIT)
    stream = sized(b"\1\2" + bytes(length - 2))
    for at in range(SIZE_BYTES + 2):
        assert frames.next_key() is None
        receive(frames, stream[at:], 1)
    assert frames.next_key() == 0x0102
    receive(frames, stream[SIZE_BYTES + 2 :] + b"\0\0", 1)
    frames.next()
    assert frames.next_key() == (0x0102 if length > 2 else None)


@pytest.mark.parametrize("size", [-1, LIMIT + 1])
def test_a_size_out_of_bounds_is_refused(size: int) -> None:
    frames = FrameBuffer(LIMIT)
    receive(frames, size.to_bytes(SIZE_BYTES, "big", signed=True), LIMIT)
    with pytest.raises(CloseConnectionError, match=str(size)):
        frames.next()
