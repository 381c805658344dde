"""The lag of a share group in a cluster: leaders and coordinators are asked, whoever they are."""

from __future__ import annotations

from typing import Any

from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequestGroup

from broker.observe.collector import MetricsReader
from tests.unit.broker.cluster.three_brokers import ALL_PARTITIONS, GROUP, Cluster
from tests.unit.broker.scraping import only, samples
from tests.unit.broker.testkit.control.asking import control
from tests.unit.broker.wire import batch, produce

EACH = (1, 2, 3)
ALL = range(ALL_PARTITIONS)


def share_cluster() -> Cluster:
    return Cluster(
        share_coordinator_state_topic_num_partitions="6",
        share_coordinator_state_topic_replication_factor="1",
        share_coordinator_state_topic_min_isr="1",
    )


async def started_at(cluster: Cluster, group: str, coordinator: int, offset: int) -> None:
    """Write 7 records to each partition, and let the share group start at that offset in all."""
    for index in ALL:
        client = cluster.client(cluster.leader(index))
        answer = await cluster.ask(client, "produce", 9, **produce("t", {index: batch(*[b"v"] * 7)}))
        assert answer.responses[0].partition_responses[0].error_code.name == "none"
    partitions = tuple(AlterShareGroupOffsetsRequestPartition(partition_index=i, start_offset=offset) for i in ALL)
    topics = (AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=partitions),)
    while True:
        client = cluster.client(coordinator)
        answer = await cluster.ask(client, "alter_share_group_offsets", 0, group_id=group, topics=topics)
        codes = {one.error_code.name for topic in answer.responses for one in topic.partitions}
        if codes == {"none"}:
            return
        assert codes <= {"none", "coordinator_not_available", "not_coordinator", "coordinator_load_in_progress"}, codes
        await cluster.clock.run(100)


async def asked(cluster: Cluster, node: int, method: str, path: str, **given: Any) -> Any:
    return await cluster.during(control(cluster.nodes[node], method, path, **given))


async def test_lag_of_a_share_group_is_the_same_whoever_is_asked_and_whoever_leads() -> None:
    async with share_cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        await started_at(cluster, group, 2, 2)
        wanted = (DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None),)
        answer = await cluster.ask(cluster.client(2), "describe_share_group_offsets", 1, groups=wanted)
        told = [(one.partition_index, one.start_offset, one.lag) for one in answer.groups[0].topics[0].partitions]
        assert told == [(index, 2, 5) for index in ALL]
        for node in EACH:
            lag = await asked(cluster, node, "GET", f"/groups/{group}/lag")
            assert [(one["partition"], one["start_offset"], one["lag"]) for one in lag["partitions"]] == told
            assert lag["total"] == 30
            assert (await asked(cluster, node, "POST", f"/groups/{group}/wait", lag=30, timeout=0))["lag"] == 30


async def test_each_share_coordinator_exports_the_lag_of_its_share_partitions() -> None:
    async with share_cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        await started_at(cluster, group, 2, 3)
        found: list[float] = []
        for node in EACH:
            metrics = cluster.nodes[node].node.local.metrics
            await cluster.during(MetricsReader(metrics).prepare())
            found += only(samples(metrics), "odradek_share_group_lag{").values()
        assert found == [4] * ALL_PARTITIONS
