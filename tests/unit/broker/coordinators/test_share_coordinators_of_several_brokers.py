"""Requests to share coordinators of several brokers: who coordinates answers, who asks finds the coordinator."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.delete_share_group_state.v0 import request as delete
from kio.schema.initialize_share_group_state.v0 import request as initialize
from kio.schema.read_share_group_state.v0 import request as read
from kio.schema.read_share_group_state_summary.v1 import request as summary
from kio.schema.write_share_group_state.v1 import request as write

from broker.coordinators.share_coordinator import coordinator_key
from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey
from tests.unit.broker.cluster.three_brokers import ALL_PARTITIONS, Cluster

GROUP = "sharers"
SHARE = 2
EPOCH = {"state_epoch": 1, "start_offset": 0}
REQUESTS: dict[str, tuple[int, Any, Any, dict[str, Any]]] = {
    "initialize_share_group_state": (0, initialize.InitializeStateData, initialize.PartitionData, EPOCH),
    "write_share_group_state": (
        1,
        write.WriteStateData,
        write.PartitionData,
        {**EPOCH, "leader_epoch": 0, "delivery_complete_count": 0, "state_batches": ()},
    ),
    "read_share_group_state": (0, read.ReadStateData, read.PartitionData, {"leader_epoch": 0}),
    "read_share_group_state_summary": (
        1,
        summary.ReadStateSummaryData,
        summary.PartitionData,
        {"leader_epoch": 0},
    ),
    "delete_share_group_state": (0, delete.DeleteStateData, delete.PartitionData, {}),
}
"""Version, the classes of a topic and a partition, and what a partition has besides its index."""


async def asked(cluster: Cluster, node_id: int, api: str, key: SharePartitionKey) -> str:
    """The error code with which a broker answers a request about one share partition."""
    version, topic, partition, fields = REQUESTS[api]
    topics = (topic(topic_id=key.topic_id, partitions=(partition(partition=key.partition, **fields),)),)
    client = cluster.nodes[node_id].connect()
    answer = await cluster.ask(client, api, version, group_id=key.group_id, topics=topics)
    client.transport.reset()
    name: str = answer.results[0].partitions[0].error_code.name
    return name


async def coordinated(cluster: Cluster) -> dict[int, SharePartitionKey]:
    """A share partition for each broker that coordinates any."""
    topic = cluster.nodes[1].node.cluster.cache.topic("t")
    assert topic is not None
    keys = [SharePartitionKey(GROUP, topic.id, index) for index in range(ALL_PARTITIONS)]
    return {await cluster.coordinator(SHARE, coordinator_key(key)): key for key in keys}


@pytest.mark.parametrize("api", REQUESTS)
async def test_what_another_broker_coordinates_is_not_sent_on_but_refused_with_not_coordinator(api: str) -> None:
    async with Cluster(share_coordinator_state_topic_replication_factor="1") as cluster:
        by_broker = await coordinated(cluster)
        assert len(by_broker) > 1
        for coordinator, key in by_broker.items():
            assert await asked(cluster, coordinator, "initialize_share_group_state", key) == "none"
            assert await asked(cluster, coordinator, api, key) == "none"
            for other in {1, 2, 3} - {coordinator}:
                assert await asked(cluster, other, api, key) == "not_coordinator"


async def test_who_asks_finds_the_coordinator_on_whatever_broker_it_is() -> None:
    async with Cluster(share_coordinator_state_topic_replication_factor="1") as cluster:
        for key in (await coordinated(cluster)).values():
            for node in cluster.nodes.values():
                states = node.node.local.share.states
                await cluster.during(states.initialize_at(key, 1, 5))
                await cluster.during(states.write(key, ShareWrite(1, 0, 7, (), 0)))
                assert (await cluster.during(states.read(key, 0))).start_offset == 7
                found = await cluster.during(states.summary(key))
                assert found is not None and found.start_offset == 7
                await cluster.during(states.forget(key))
