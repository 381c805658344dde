"""Records as Hypothesis makes them."""

from __future__ import annotations

from hypothesis import strategies as st

from protocol.records.build import Record

TIME = 1_700_000_000_000

contents = (
    st.none() | st.binary(max_size=20) | st.sampled_from((bytes(63), bytes(64), bytes(8191), bytes(8192), bytes(9999)))
)
header_keys = st.text(max_size=5).map(str.encode)
headers = st.lists(st.tuples(header_keys, st.none() | st.binary(max_size=70)), max_size=3).map(tuple)
times = st.integers(TIME - 10**7, TIME + 10**7) | st.sampled_from((-1, 0, TIME, TIME + 63, TIME + 64, TIME + 8192))


@st.composite
def record_lists(draw: st.DrawFn, min_size: int = 1, max_size: int = 5) -> list[Record]:
    """Records with offsets 0, 1, 2, ..."""
    count = draw(st.integers(min_size, max_size))
    return [Record(i, draw(times), draw(contents), draw(contents), draw(headers)) for i in range(count)]
