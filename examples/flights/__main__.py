"""`python -m examples.flights`: broker, stream, table and picture in one command."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights import report, stream
from examples.flights.data import Flight, airlines, flights
from examples.flights.producer import Departures, create_topic
from odradek import Broker
from odradek_pipeline import session

TOPIC = "flights"
CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # A JVM that lives for a minute is faster without its second compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/flights"), show_default=True)
@click.option("--days", type=click.IntRange(2), help="of the year only so many; of one there is not enough to draw")
def main(out: Path, days: int | None) -> None:
    """Stream 336,776 flights through a broker; with Spark, count delays by carrier and hour in a Delta table."""
    began = time.monotonic()
    with Broker(profile="dev") as broker, ThreadPoolExecutor(1) as pool:
        loading = pool.submit(flights, days)
        click.echo(f"broker on {broker.bootstrap_servers}; starting Spark")
        spark = session.build(
            session.SessionOptions(app_name="flights", parts=(session.KAFKA, session.DELTA), conf=CONF)
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            show(spark, broker.bootstrap_servers, TOPIC, loading.result, out.absolute())
        finally:
            spark.stop()
    click.echo(f"{time.monotonic() - began:.0f} s")


def show(
    spark: SparkSession, bootstrap: str, topic: str, load: Callable[[], Sequence[Flight]], out: Path
) -> tuple[Path, Path]:
    """Stream what `load` gives through the topic, which is made. Returns the table and the picture, both in `out`.

    Raises ClickException when the table does not hold every flight.
    """
    table, records, picture = out / "delays", out / "records", out / "delays.png"
    for old in (table, records):
        shutil.rmtree(old, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    create_topic(bootstrap, topic)
    departures = Departures(bootstrap, topic, load)
    with tempfile.TemporaryDirectory(prefix="flights-") as checkpoint:
        query = stream.start(spark, bootstrap, topic, table, Path(checkpoint))
        try:
            departures.start()
            follow(query, departures)
            query.processAllAvailable()
            late = stream.dropped(query)
        finally:
            query.stop()
    rows = report.read(spark, table)
    held = rows.selectExpr("sum(flights) AS flights").collect()[0].flights
    if late or held != departures.sent:
        raise click.ClickException(f"{departures.sent} flights were sent, the table has {held}; {late} came too late")
    names = airlines()
    report.plot(rows, names, picture)
    click.echo(f"\n{report.text(rows, names)}\n")
    stream.copy(spark, bootstrap, topic, records)
    page = out / "audit.html"
    audit(bootstrap, topic, records, page)
    click.echo(f"\ntable (Delta): {table}\npicture:       {picture}\naudit:         {page}")
    return table, picture


def audit(bootstrap: str, topic: str, table: Path, page: Path) -> None:
    """Prove, without Spark, that the table has each record of the topic. Raises ClickException if it has not."""
    sides = ["--topic", topic, "--bootstrap", bootstrap, "--table", str(table), "--up-to", "end"]
    done = subprocess.run([sys.executable, "-m", "odradek_pipeline", "audit", *sides, "--html", str(page)], check=False)
    if done.returncode:
        raise click.ClickException("the table does not have what the topic has")


def follow(query: StreamingQuery, departures: Departures) -> None:
    """A line for each batch, until all flights were sent and counted."""
    counted, told = 0, -1
    while departures.is_alive() or counted < departures.sent:
        query.awaitTermination(1)
        for batch in query.recentProgress:
            if batch["batchId"] > told and batch["numInputRows"]:
                told = batch["batchId"]
                counted += batch["numInputRows"]
                day = batch["eventTime"]["max"][:10]
                click.echo(f"batch {told}: {counted:,} of {departures.sent:,} flights, up to {day}")
    if departures.error is not None:
        raise departures.error


if __name__ == "__main__":
    main()
