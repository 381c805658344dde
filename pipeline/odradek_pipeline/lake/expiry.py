"""Old snapshots, and the files that only these have: what `--keep-snapshots` and `--keep-days` leave.

A retry looks for the snapshot of the newest batch, so this one stays, however many are newer.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_DAYS = 7.0
"""Delta's own limit: what was removed later may still be read, or be about to be written."""
ICEBERG_DAYS = 1.0
LEAST_SNAPSHOTS = 2


def expire_iceberg(
    spark: SparkSession, table: str, newest: str, call: str, keep_snapshots: int, keep_days: float | None
) -> None:
    """`newest`: the condition for a batch's snapshot; `call`: the procedure's call up to its first free argument."""
    (marked,) = spark.sql(f"SELECT max(committed_at) AS at FROM {table}.snapshots WHERE {newest}").collect()
    before = datetime.now(UTC) - timedelta(days=ICEBERG_DAYS if keep_days is None else keep_days)
    if marked.at is not None:
        before = min(before, marked.at.astimezone(UTC))
    retain = max(LEAST_SNAPSHOTS, keep_snapshots)
    stamp = f"TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f} UTC'"
    spark.sql(f"{call} older_than => {stamp}, retain_last => {retain})")


def expire_delta(spark: SparkSession, table: str, keep_days: float | None) -> None:
    """Files that no version of the last days has. Delta forgets the versions themselves after 30 days."""
    days = DELTA_DAYS if keep_days is None else keep_days
    checked = "spark.databricks.delta.retentionDurationCheck.enabled"
    before = spark.conf.get(checked, "true")
    spark.conf.set(checked, str(days >= DELTA_DAYS).lower())
    try:
        spark.sql(f"VACUUM {table} RETAIN {math.ceil(days * 24)} HOURS")
    finally:
        spark.conf.set(checked, before or "true")
