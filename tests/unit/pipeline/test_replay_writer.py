"""One task's rows through a producer that fails anywhere: each is committed once and in order, or it says why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.replay.progress import InputChangedError, TaskProgress  # noqa: E402
from odradek_pipeline.replay.writer import Row, TaskWriter, TransactionLimits, rows_of  # noqa: E402


class FailedError(Exception):
    pass


@dataclasses.dataclass
class Broker:
    """What of a task's transactions is committed."""

    rows: list[Row] = dataclasses.field(default_factory=list)
    transactions: list[int] = dataclasses.field(default_factory=list)
    progress: TaskProgress = dataclasses.field(default_factory=TaskProgress)


class Attempt:
    """A Sender of one attempt, which fails at its `steps`-th step, a commit after it was done if `late`."""

    def __init__(self, broker: Broker, steps: int = 10**9, *, late: bool = False) -> None:
        self._broker = broker
        self._steps = steps
        self._late = late
        self._open: list[Row] | None = None

    def begin(self) -> None:
        assert self._open is None
        self._open = []

    def send(self, row: Row) -> None:
        assert self._open is not None
        self._step()
        self._open.append(row)

    def commit(self, progress: TaskProgress) -> None:
        assert self._open is not None
        if not self._late:
            self._step()
        self._broker.rows += self._open
        self._broker.transactions.append(len(self._open))
        self._broker.progress = progress
        self._open = None
        if self._late:
            self._step()

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise FailedError


def batches(values: Sequence[bytes], size: int = 7, start: int = 0) -> Iterator[Any]:
    """Rows with these values, `size` a batch, each batch cut out of a longer one that has `start` rows before."""
    for at in range(0, len(values), size):
        part = [b"not meant"] * start + list(values[at : at + size])
        table = {"key": part, "value": part, "digest": [hash(value) for value in part]}
        yield pa.RecordBatch.from_pydict(table).slice(start)


def values_of(broker: Broker) -> list[bytes | None]:
    return [row.value for row in broker.rows]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 60),
    size=st.integers(1, 20),
    start=st.integers(0, 3),
    limit=st.integers(1, 25),
    failures=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6),
)
def test_each_row_once_and_in_order_whatever_fails(
    count: int, size: int, start: int, limit: int, failures: list[tuple[int, bool]]
) -> None:
    rows = numbered(count)
    broker = Broker()
    for steps, late in failures:
        try:
            writer = TaskWriter(Attempt(broker, steps, late=late), TransactionLimits(rows=limit), broker.progress)
            writer.write(batches(rows, size, start))
        except FailedError:
            assert values_of(broker) == rows[: broker.progress.rows]
    writer = TaskWriter(Attempt(broker), TransactionLimits(rows=limit), broker.progress)
    assert writer.write(batches(rows, size, start)) == broker.progress
    assert values_of(broker) == rows
    assert broker.progress.done
    assert broker.progress.rows == count
    assert broker.progress.size == 2 * sum(map(len, rows))
    assert max(broker.transactions) <= limit


def test_a_task_without_rows_says_that_it_is_done() -> None:
    broker = Broker()
    TaskWriter(Attempt(broker), TransactionLimits(), TaskProgress()).write([])
    assert broker.progress == TaskProgress(done=True)
    assert broker.transactions == [0]


def test_a_transaction_is_full_by_its_bytes() -> None:
    broker = Broker()
    TaskWriter(Attempt(broker), TransactionLimits(size=200), TaskProgress()).write(batches([b"x" * 50] * 5))
    assert broker.transactions == [2, 2, 1]


def test_a_transaction_is_full_by_its_age() -> None:
    broker = Broker()
    now = iter(range(100))  # a second passes with every look at the clock: at its begin, and after each row
    TaskWriter(Attempt(broker), TransactionLimits(seconds=3), TaskProgress(), lambda: next(now)).write(
        batches(numbered(7))
    )
    assert broker.transactions == [3, 3, 1]


def interrupted(rows: Sequence[bytes], after: int) -> Broker:
    """So many rows are committed, one a transaction; then the attempt failed."""
    broker = Broker()
    with pytest.raises(FailedError):
        TaskWriter(Attempt(broker, 2 * after), TransactionLimits(rows=1), TaskProgress()).write(batches(rows))
    assert values_of(broker) == list(rows[:after])
    return broker


def test_other_rows_than_were_written_are_refused() -> None:
    broker = interrupted(numbered(10), 4)
    changed = [b"another", *numbered(10)[1:]]
    with pytest.raises(InputChangedError, match="the first 4 rows are not the ones that were written before"):
        TaskWriter(Attempt(broker), TransactionLimits(rows=1), broker.progress).write(batches(changed))
    assert broker.progress.rows == 4


def test_fewer_rows_than_were_written_are_refused() -> None:
    broker = interrupted(numbered(10), 4)
    with pytest.raises(InputChangedError, match="4 rows were written before, and now there are 3"):
        TaskWriter(Attempt(broker), TransactionLimits(rows=1), broker.progress).write(batches(numbered(3)))
    assert not broker.progress.done


def test_the_columns_of_a_row() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None, b""], pa.binary()),
            "value": pa.array([b"v", None], pa.binary()),
            "headers": [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None],
            "timestamp_ms": [5, None],
            "digest": [1, 2],
        }
    )
    assert list(rows_of(batch)) == [
        Row(None, None, b"v", [("a", b"1"), ("a", None)], 5),
        Row(None, b"", None, None, None),
    ]
