"""Brokers that follow another node's controller: whole nodes in memory and in virtual time."""

from __future__ import annotations

from tests.unit.broker.cluster_rig import ClusterRig


async def test_nodes_join_and_share_the_partitions_of_a_topic() -> None:
    async with ClusterRig(brokers=2) as cluster:
        image = cluster.nodes[3].node.cluster.cache.image
        assert [broker.id for broker in image.cluster.alive()] == [1, 2, 3]
        assert await cluster.create(2, "orders", 6) == "none"
        await cluster.clock.run(100)
        for node_id, rig in cluster.nodes.items():
            topic = rig.node.cluster.cache.image.topics.get("orders")
            assert topic is not None, node_id
            mine = {index for index, partition in topic.in_order() if partition.leader == node_id}
            assert {partition.index for partition in rig.node.replicas} == mine
            assert len(mine) == 2
