"""What the table says: a few lines of text, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

NEW_YORK = "America/New_York"
ENOUGH_FLIGHTS = 20
"""Fewer say nothing about an hour of the day; its field stays empty."""


def read(spark: SparkSession, table: Path) -> DataFrame:
    return spark.read.format("delta").load(str(table))


def carriers(rows: DataFrame) -> list[tuple[str, int, float, float]]:
    """(carrier, flights, share of late ones, mean delay in minutes), the latest first."""
    left = F.col("flights") - F.col("cancelled")
    found = (
        rows.groupBy("carrier")
        .agg(
            F.sum("flights").alias("flights"),
            (F.sum("late") / F.sum(left)).alias("late"),
            (F.sum(F.col("dep_delay") * left) / F.sum(left)).alias("delay"),
        )
        .orderBy(F.desc("delay"))
    )
    return [(row.carrier, row.flights, row.late, row.delay) for row in found.collect()]


def text(rows: DataFrame, names: Mapping[str, str]) -> str:
    lines = [f"{'carrier':<28}{'flights':>9}{'left late':>11}{'mean delay':>12}"]
    for carrier, flights, late, delay in carriers(rows):
        lines.append(f"{names.get(carrier, carrier):<28}{flights:>9,}{late:>10.1%} {delay:>8.1f} min")
    return "\n".join(lines)


def plot(rows: DataFrame, names: Mapping[str, str], path: Path) -> None:
    """Mean delay by carrier and hour of the day in New York, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    left = F.col("flights") - F.col("cancelled")
    cells = (
        rows.withColumn("hour", F.hour(F.from_utc_timestamp("hour", NEW_YORK)))
        .groupBy("carrier", "hour")
        .agg(F.sum(left).alias("flights"), (F.sum(F.col("dep_delay") * left) / F.sum(left)).alias("delay"))
        .where(F.col("flights") >= ENOUGH_FLIGHTS)
        .collect()
    )
    order = [carrier for carrier, *_ in reversed(carriers(rows))]
    span = range(min(cell.hour for cell in cells), max(cell.hour for cell in cells) + 1)
    grid = [[float("nan")] * len(span) for _ in order]
    for cell in cells:
        grid[order.index(cell.carrier)][cell.hour - span.start] = cell.delay
    figure, axes = plt.subplots(figsize=(11, 6), layout="constrained")
    drawn = axes.pcolormesh(list(span), range(len(order)), grid, cmap="YlOrRd", vmin=0, edgecolors="white")
    axes.set_xticks(list(span))
    axes.set_yticks(range(len(order)), [names.get(carrier, carrier) for carrier in order])
    axes.set_xlabel("hour of the day in which the flight was to leave (New York)")
    axes.set_title("Departures from New York in 2013: the later the day, the later they leave")
    figure.colorbar(drawn, label="mean delay of departure (minutes)")
    figure.savefig(path, dpi=120)
    plt.close(figure)
