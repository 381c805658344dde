"""What a broker sends on to the controller, and what it must not send on to another broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.add_raft_voter.v1.request import Listener
from kio.schema.delete_share_group_state.v0.request import DeleteStateData
from kio.schema.delete_share_group_state.v0.request import PartitionData as Deleted
from kio.schema.read_share_group_state.v0.request import PartitionData, ReadStateData

from broker.api.controller import FORWARDABLE
from protocol.api.row import Api
from protocol.api.table import API_TABLE, CONTROLLER_TABLE
from protocol.durations import ZERO
from protocol.uuids import to_text
from tests.unit.broker.cluster.three_brokers import Cluster
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig

BROKER = 2
DIRECTORY = UUID(int=5)
LISTENERS = (Listener(name="CONTROLLER", host="h", port=1),)


@pytest.mark.parametrize("api", [api for api in API_TABLE if api.place == "decides"], ids=lambda api: api.name)
def test_what_a_controller_decides_is_served_there_and_may_be_sent_on(api: Api) -> None:
    assert api in CONTROLLER_TABLE
    assert api.key in FORWARDABLE


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (
            "add_raft_voter",
            1,
            {
                "cluster_id": "another",
                "timeout": ZERO,
                "voter_id": 7,
                "voter_directory_id": DIRECTORY,
                "listeners": LISTENERS,
                "ack_when_committed": True,
            },
        ),
        ("remove_raft_voter", 0, {"cluster_id": "another", "voter_id": 7, "voter_directory_id": DIRECTORY}),
    ],
)
async def test_a_change_of_voters_is_answered_by_the_controller(api: str, version: int, fields: dict[str, Any]) -> None:
    async with ClusterRig(brokers=1) as cluster:
        counted = cluster.nodes[CONTROLLER].node.local.metrics.requests[api]
        answer = await cluster.ask(cluster.nodes[BROKER].connect(), api, version, **fields)
        assert answer.error_code.name == "inconsistent_cluster_id"
        own = await cluster.ask(cluster.nodes[BROKER].connect(), api, version, **fields | {"cluster_id": None})
        assert own.error_code.name == "unsupported_version"
        assert sum(count for _, count in counted.by_version.items()) == 2


async def test_a_state_that_another_broker_coordinates_is_answered_with_not_coordinator() -> None:
    cluster = Cluster(
        share_coordinator_state_topic_num_partitions="6",
        share_coordinator_state_topic_replication_factor="1",
        share_coordinator_state_topic_min_isr="1",
    )
    async with cluster:
        topic_id = cluster.nodes[1].node.cluster.cache.topic("t").id
        key = f"g:{to_text(topic_id)}:0"
        coordinator = await _share_coordinator(cluster, key)
        for node_id in (1, 2, 3):
            client = cluster.client(node_id)
            read = ReadStateData(topic_id=topic_id, partitions=(PartitionData(partition=0, leader_epoch=0),))
            answer = await cluster.ask(client, "read_share_group_state", 0, group_id="g", topics=(read,))
            code = answer.results[0].partitions[0].error_code.name
            assert (code == "not_coordinator") == (node_id != coordinator), (node_id, coordinator, code)
        other = next(node_id for node_id in (1, 2, 3) if node_id != coordinator)
        gone = DeleteStateData(topic_id=topic_id, partitions=(Deleted(partition=0),))
        answer = await cluster.ask(cluster.client(other), "delete_share_group_state", 0, group_id="g", topics=(gone,))
        assert answer.results[0].partitions[0].error_code.name == "not_coordinator"


async def _share_coordinator(cluster: Cluster, key: str) -> int:
    while True:
        client = cluster.client(1)
        answer = await cluster.ask(client, "find_coordinator", 6, key_type=2, coordinator_keys=(key,))
        if answer.coordinators[0].error_code.name == "none":
            return int(answer.coordinators[0].node_id)
        await cluster.clock.run(100)
