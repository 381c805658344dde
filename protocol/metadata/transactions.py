"""Records that join others into one change, larger than a batch (KIP-868), and those that change nothing."""

from __future__ import annotations

from typing import Annotated

from ..declared import Int8, Placed, String, record


@record(23)
class BeginTransactionRecord:
    """The records from here on count only once an EndTransactionRecord has come."""

    name: Annotated[String | None, Placed(tag=0)] = None


@record(24)
class EndTransactionRecord:
    """The records since the last BeginTransactionRecord count."""


@record(25)
class AbortTransactionRecord:
    """The records since the last BeginTransactionRecord do not count."""

    reason: Annotated[String | None, Placed(tag=0)] = None


@record(20)
class NoOpRecord:
    """Nothing: it makes the log's end move while nothing else happens (KIP-835)."""


@record(21)
class ZkMigrationStateRecord:
    """How far a migration from ZooKeeper has come; 0 for a cluster that never had one."""

    zk_migration_state: Int8
