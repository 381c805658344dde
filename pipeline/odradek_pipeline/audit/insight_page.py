"""An insight as lines, as Parquet and as a page with plots that fetches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from odradek_pipeline.audit import report
from odradek_pipeline.audit.insight import DEAD_AFTER_MS, Insight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 12
"""Partitions or groups that a plot shows by themselves."""
BARS = 20
COLUMNS = 150
"""Steps of time that are drawn."""
_TIME = pa.timestamp("ms", tz="UTC")
_COLOUR = "#1565c0"


def lines(found: Insight) -> list[str]:
    """What a person reads first."""
    dead = [one for one in found.groups if one.dead]
    out = [f"group {one.name} is dead: it lags by {one.lag:,}, last commit {_when(one.last_commit)}" for one in dead]
    if top := found.keys.top():
        key, count = top[0]
        out.append(f"the most frequent key, {_key(key)}, has {_share(count, found)} of the records")
    size = sum(one["bytes"] for one in found.partitions)
    head = f"{found.topic}: {found.records:,} records, {size:,} bytes, in {len(found.partitions)} partitions"
    return [*out, f"{head}; the largest has {found.skew:.2f} times the mean"]


def write_tables(folder: Path, found: Insight) -> None:
    """`partitions`, `throughput`, `keys`, `lag` and `groups`, each a Parquet file. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("partition", "time", "records", "bytes", "last")
    throughput = [
        dict(zip(names, (number, bucket * found.throughput.width, *cell), strict=True))
        for number, cells in sorted(found.throughput.rows.items())
        for bucket, cell in sorted(cells.items())
    ]
    lag_names = ("group", "partition", "time", "committed", "lag")
    lag = [dict(zip(lag_names, row, strict=True)) for row in found.lag()]
    keys = [{"key": key, "count": count} for key, count in found.keys.top()]
    groups = [{"group": g.name, "last_commit": g.last_commit, "lag": g.lag, "dead": g.dead} for g in found.groups]
    for name, rows, schema in (
        ("partitions", found.partitions, _numbers("partition", "start", "end", "records", "bytes", "aborted")),
        ("throughput", throughput, _numbers(*names)),
        ("keys", keys, _keyed("key", pa.binary(), "count")),
        ("lag", lag, _keyed("group", pa.string(), *lag_names[1:])),
        ("groups", groups, _keyed("group", pa.string(), "last_commit", "lag").append(pa.field("dead", pa.bool_()))),
    ):
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{name}.parquet")


def _numbers(*names: str) -> pa.Schema:
    times = ("time", "last_commit")
    return pa.schema([(name, _TIME if name in times else pa.int64()) for name in names])


def _keyed(name: str, kind: pa.DataType, *numbers: str) -> pa.Schema:
    return pa.schema([pa.field(name, kind), *_numbers(*numbers)])


def write_page(path: Path, found: Insight, result: Mapping[str, Any]) -> None:
    """The page: what `lines` says, plots, and tables. Raises OSError."""
    body = ["".join(f"<p>{report.text(line)}</p>" for line in lines(found))]
    body.append(f"<p><code>{report.text(result['source'])}</code>, read in {result['seconds']} seconds.</p>")
    if found.records:
        body.append("<h2>Throughput</h2>" + report.svg(_throughput(found)))
    body.append("<h2>Partitions</h2>" + report.svg(_skew(found)))
    names = ["partition", "start", "end", "records", "bytes", "aborted"]
    body.append(report.table(names, [[one[name] for name in names] for one in found.partitions]))
    if top := found.keys.top()[:BARS]:
        body.append("<h2>Hot keys</h2>" + report.svg(_bars([(_key(key), count) for key, count in top], "records")))
        if found.keys.error:
            body.append(f"<p>Each of these may have up to {found.keys.error:,} records more.</p>")
    if found.groups:
        body.append("<h2>Groups</h2>" + report.svg(_lag(found)))
        minutes = DEAD_AFTER_MS // 60_000
        body.append(f"<p>Dead are those that lag, and have not committed in the topic's last {minutes} minutes.</p>")
        rows = [[one.name, _when(one.last_commit), one.lag, "dead" if one.dead else ""] for one in found.groups]
        body.append(report.table(["group", "last commit", "lag", ""], rows))
    report.write_page(path, f"Insight into {found.topic}", body)


def _throughput(found: Insight) -> Figure:
    """Records and bytes a second over time; by partition, if they are few."""
    figure, (records, sizes) = report.new_figure(6, 2)
    rows = sorted(found.throughput.rows)
    parts = [(str(number), [number]) for number in rows] if len(rows) <= LINES else [("all", rows)]
    buckets = [bucket for cells in found.throughput.rows.values() for bucket in cells]
    first, together = min(buckets), (max(buckets) - min(buckets)) // COLUMNS + 1
    seconds = found.throughput.width * together / 1000
    count = (max(buckets) - first) // together + 2  # the last one is empty, and ends the steps
    times = [_time((first + column * together) * found.throughput.width) for column in range(count)]
    for axes, which, scale in ((records, 0, 1.0), (sizes, 1, 1e6)):
        lines = []
        for _, numbers in parts:
            drawn = [0.0] * count
            for number in numbers:
                for bucket, cell in found.throughput.rows[number].items():
                    drawn[(bucket - first) // together] += cell[which] / seconds / scale
            lines.append(drawn)
        axes.stackplot(times, *lines, labels=[label for label, _ in parts], step="post")
    records.set_ylabel("records a second")
    sizes.set_ylabel("MB a second")
    records.legend(title="partition", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _skew(found: Insight) -> Figure:
    figure, (axes,) = report.new_figure(3)
    numbers = [one["partition"] for one in found.partitions]
    axes.bar(numbers, [one["bytes"] / 1e6 for one in found.partitions], color=_COLOUR)
    axes.set_xlabel("partition")
    if len(numbers) <= 3 * LINES:
        axes.set_xticks(numbers)
    axes.set_ylabel("MB")
    return figure


def _bars(pairs: list[tuple[str, int]], label: str) -> Figure:
    figure, (axes,) = report.new_figure(1 + 0.25 * len(pairs))
    axes.barh([name for name, _ in pairs], [count for _, count in pairs], color=_COLOUR)
    axes.set_xlabel(label)
    axes.invert_yaxis()
    return figure


def _lag(found: Insight) -> Figure:
    """The lag of each group over time, over all partitions: what it last was in each."""
    figure, (axes,) = report.new_figure(4)
    for name, points in list(_lags(found))[:LINES]:
        axes.step([_time(time) for time, _ in points], [lag for _, lag in points], where="post", label=name, marker=".")
    axes.set_ylabel("offsets behind the end")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _lags(found: Insight) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """(group, (time, lag)), those with the most lag first."""
    by_group: dict[str, list[tuple[int, int, int]]] = {}
    for group, number, time, _, lag in found.lag():
        by_group.setdefault(group, []).append((time, number, lag))
    summed = []
    for group, points in by_group.items():
        now: dict[int, int] = {}
        line: dict[int, int] = {}
        for time, number, lag in sorted(points):
            now[number] = lag
            line[time] = sum(now.values())
        summed.append((group, sorted(line.items())))
    yield from sorted(summed, key=lambda pair: -max(lag for _, lag in pair[1]))


def _share(count: int, found: Insight) -> str:
    return f"{100 * count / (found.records or 1):.1f} %"


def _key(key: bytes) -> str:
    """As text; what cannot be printed, such as the id of a registry's schema in front, is escaped."""
    whole = key.decode(errors="backslashreplace")
    text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in whole)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _time(millis: int) -> datetime:
    """A time that can be drawn: years 1 to 9999."""
    return datetime.fromtimestamp(min(max(millis / 1000, -62_000_000_000), 250_000_000_000), UTC)


def _when(millis: int) -> str:
    return f"{_time(millis):%Y-%m-%d %H:%M:%S} UTC"
