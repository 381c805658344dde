"""`odradek transactions list|describe|abort`."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from typing import Any

import click
from kafka import KafkaProducer, TopicPartition
from kafka.admin import AbortTransactionSpec, TransactionState
from kafka.errors import InvalidTransactionTimeoutError

from odradek.cli.connection import TargetCluster, connected, refusals
from odradek.cli.general import LARGEST, ClusterCommands, confirm
from odradek.cli.output import Output

STATES = [state.value for state in TransactionState if state is not TransactionState.UNKNOWN]

OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States in which readers of committed records may have to wait: also for markers that are not written yet."""

SHORT_TIMEOUT_MS = 1000
"""Not shorter: the coordinator gives its own writes as much."""


@click.group("transactions", cls=ClusterCommands)
def main() -> None:
    """List, describe and abort transactions."""


def listed(cluster: TargetCluster, out: Output, states: Collection[str] = ()) -> list[Any]:
    """The transactional ids of these states, of all without one; a broker that does not tell its own is told."""
    found: list[Any] = []
    with cluster.python_admin() as admin:
        for broker in cluster.broker_ids():
            with refusals(out, {"broker": broker}):
                found += admin.list_transactions(broker_ids=[broker], state_filters=list(states) or None)[broker]
    return found


@main.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    metavar="STATE",
    help=f"Only these; may be repeated: {', '.join(STATES)}.",
)
@connected
def list_(cluster: TargetCluster, out: Output, states: tuple[str, ...]) -> None:
    """List the transactional ids."""
    rows = sorted(
        (entry.transactional_id, entry.state.value, entry.producer_id) for entry in listed(cluster, out, states)
    )
    out.table(("transactional_id", "state", "producer_id"), rows)


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@connected
def describe(cluster: TargetCluster, out: Output, names: tuple[str, ...]) -> None:
    """Describe transactional ids: state, age, partitions."""
    found: dict[str, Any] = {}
    with cluster.python_admin() as admin:
        for name in names:
            with refusals(out, {"transactional_id": name}):
                found |= admin.describe_transactions([name])
    now = time.time() * 1000
    out.table(
        ("transactional_id", "state", "producer_id", "epoch", "timeout_ms", "age_s", "partitions", "coordinator"),
        [
            (
                name,
                transaction.state.value,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.transaction_timeout_ms,
                round((now - transaction.transaction_start_time_ms) / 1000)
                if transaction.transaction_start_time_ms > 0
                else None,
                sorted(f"{each.topic}-{each.partition}" for each in transaction.topic_partitions),
                transaction.coordinator_id,
            )
            for name, transaction in sorted(found.items())
        ],
    )


@main.command()
@click.argument("transactional_id", required=False)
@click.option("--partition", metavar="TOPIC:PARTITION", help="Of a hanging transaction, which no coordinator knows.")
@click.option("--start-offset", type=click.IntRange(0, LARGEST), help="Where that transaction begins in the partition.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def abort(
    cluster: TargetCluster,
    out: Output,
    transactional_id: str | None,
    partition: str | None,
    start_offset: int | None,
    yes: bool,
) -> None:
    """Abort what a transactional id has open, and fence its producer; or end what hangs in a partition."""
    if transactional_id is not None and partition is None:
        confirm(f"Abort the transaction of {transactional_id} and fence its producer?", yes)
        with cluster.python_admin() as admin:
            about = admin.describe_transactions([transactional_id])[transactional_id]  # what does not exist is not made
        _fence(cluster, transactional_id, about.transaction_timeout_ms)
        out.result({"transactional_id": transactional_id}, "no open transaction is left, and its producer is fenced")
        return
    if transactional_id is not None or partition is None or start_offset is None:
        raise click.UsageError("expected TRANSACTIONAL_ID, or --partition TOPIC:PARTITION and --start-offset")
    topic, _, number = partition.rpartition(":")
    if not topic or not re.fullmatch("[0-9]{1,9}", number):
        raise click.BadParameter(f"{partition!r}: expected TOPIC:PARTITION", param_hint="--partition")
    at = TopicPartition(topic, int(number))
    confirm(f"Abort the transaction that begins at {start_offset} in {partition}?", yes)
    with cluster.python_admin() as admin:
        producers = admin.describe_producers([at])[at].active_producers
        open_ = [producer for producer in producers if producer.current_transaction_start_offset == start_offset]
        if not open_:
            raise click.ClickException(f"{partition} has no open transaction that begins at {start_offset}")
        transaction = open_[0]
        admin.abort_transaction(
            AbortTransactionSpec(
                at, transaction.producer_id, transaction.producer_epoch, max(transaction.coordinator_epoch, 0)
            )
        )
    out.result({"partition": partition}, f"the transaction that begins at {start_offset} is aborted")


def _fence(cluster: TargetCluster, transactional_id: str, timeout_ms: int) -> None:
    """Begin anew in the name of the id, with its own time-out, or with a short one if the broker now allows less."""
    for each in (timeout_ms, SHORT_TIMEOUT_MS):
        producer = KafkaProducer(
            **cluster.python_config(),
            transactional_id=transactional_id,
            transaction_timeout_ms=each,
            max_block_ms=int(cluster.timeout * 1000),
        )
        try:
            producer.init_transactions()
        except InvalidTransactionTimeoutError:
            if each == SHORT_TIMEOUT_MS:
                raise
        else:
            return
        finally:
            producer.close(0)
