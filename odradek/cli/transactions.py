"""`odradek transactions list|describe|abort`."""

from __future__ import annotations

import time

import click
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import AbortTransactionSpec, TransactionState

from odradek.cli.arguments import confirm
from odradek.cli.connection import Cluster, connected
from odradek.cli.groups_of_commands import ClusterCommands
from odradek.cli.output import Output

STATES = [one.value for one in TransactionState if one is not TransactionState.UNKNOWN]


@click.group("transactions", cls=ClusterCommands)
def main() -> None:
    """List, describe and abort transactions."""


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
def list_(cluster: Cluster, out: Output, states: tuple[str, ...]) -> None:
    """List the transactional ids."""
    with cluster.python_admin() as admin:
        found = [one for each in admin.list_transactions(state_filters=list(states) or None).values() for one in each]
    rows = sorted((one.transactional_id, one.state.value, one.producer_id) for one in found)
    out.table(("transactional_id", "state", "producer_id"), rows)


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@connected
def describe(cluster: Cluster, out: Output, names: tuple[str, ...]) -> None:
    """Describe transactional ids: state, age, partitions."""
    with cluster.python_admin() as admin:
        found = admin.describe_transactions(list(names))
    now = time.time() * 1000
    out.table(
        ("transactional_id", "state", "producer_id", "epoch", "timeout_ms", "age_s", "partitions", "coordinator"),
        [
            (
                name,
                one.state.value,
                one.producer_id,
                one.producer_epoch,
                one.transaction_timeout_ms,
                round((now - one.transaction_start_time_ms) / 1000) if one.transaction_start_time_ms > 0 else None,
                sorted(f"{each.topic}-{each.partition}" for each in one.topic_partitions),
                one.coordinator_id,
            )
            for name, one in sorted(found.items())
        ],
    )


@main.command()
@click.argument("transactional_id", required=False)
@click.option("--partition", metavar="TOPIC:PARTITION", help="Of a hanging transaction, which no coordinator knows.")
@click.option("--start-offset", type=click.IntRange(min=0), help="Where that transaction begins in the partition.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def abort(
    cluster: Cluster,
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
            admin.describe_transactions([transactional_id])  # one that does not exist is not made
        producer = Producer(cluster.config(transactional_id=transactional_id))
        producer.init_transactions(cluster.timeout)
        out.result({"transactional_id": transactional_id}, "no open transaction is left, and its producer is fenced")
        return
    if transactional_id is not None or partition is None or start_offset is None:
        raise click.UsageError("expected TRANSACTIONAL_ID, or --partition TOPIC:PARTITION and --start-offset")
    topic, _, number = partition.rpartition(":")
    if not topic or not number.isdecimal():
        raise click.BadParameter(f"{partition!r}: expected TOPIC:PARTITION", param_hint="--partition")
    at = TopicPartition(topic, int(number))
    confirm(f"Abort the transaction that begins at {start_offset} in {partition}?", yes)
    with cluster.python_admin() as admin:
        producers = admin.describe_producers([at])[at].active_producers
        open_ = [one for one in producers if one.current_transaction_start_offset == start_offset]
        if not open_:
            raise click.ClickException(f"{partition} has no open transaction that begins at {start_offset}")
        one = open_[0]
        admin.abort_transaction(
            AbortTransactionSpec(at, one.producer_id, one.producer_epoch, max(one.coordinator_epoch, 0))
        )
    out.result({"partition": partition}, f"the transaction that begins at {start_offset} is aborted")
