"""Snapshots of a node with a controller's listener: allowed while it is alone, refused once others have joined."""

from __future__ import annotations

from typing import Any

import pytest

from broker.testkit.control.app import ENDPOINTS
from broker.testkit.control.endpoint import ControlError
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig, NodeRig

BY_PATH = {(one.method, one.path): one for one in ENDPOINTS}


async def call(cluster: ClusterRig, path: str, /, **values: Any) -> Any:
    return await cluster.during(BY_PATH["POST", path].answer(cluster.nodes[CONTROLLER].node, values))


async def test_a_node_that_is_alone_is_restored_and_serves_other_nodes_afterwards() -> None:
    async with ClusterRig(brokers=0) as cluster:
        assert await cluster.create(CONTROLLER, "before", 1) == "none"
        await call(cluster, "/snapshots", path="/s")
        assert await cluster.create(CONTROLLER, "after", 1) == "none"
        await call(cluster, "/snapshots/restore", path="/s")
        assert [topic.name for topic in cluster.nodes[CONTROLLER].node.cluster.cache.image.topics] == ["before"]
        cluster.nodes[2] = NodeRig(cluster, 2)
        await cluster.start(2)
        assert [topic.name for topic in cluster.nodes[2].node.cluster.cache.image.topics] == ["before"]
        with pytest.raises(ControlError, match="not alone in its cluster"):
            await call(cluster, "/snapshots", path="/other")
