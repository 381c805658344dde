"""Three brokers in memory with tiered storage in one folder, and the questions that tests of it ask.

Node 1 is the controller too. The folder is a file system of its own: nodes crash, the store does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsResource
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from kio.schema.delete_topics.v6.request import DeleteTopicState

from broker.replication.partition import Partition
from broker.tiering import tier_manager
from metadata.configs import ResourceType
from protocol.remote_storage.segments import RemoteSegments
from protocol.remote_storage.store import RemoteStore, StoredObject
from storage.tier.counts import Count
from storage.tier.folder import FolderStore
from tests.doubles.files import MemoryFileSystem
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig
from tests.unit.broker.rig import Client
from tests.unit.broker.tiering.tiered_rig import CONFIG, TOPIC_CONFIG, records_before, records_in
from tests.unit.broker.wire import batch, fetch, produce

MINUTE = timedelta(minutes=1)
OF_CLUSTER = {
    **CONFIG,
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "rlmm.config.remote.log.metadata.topic.min.isr": "2",
    "replica.lag.time.max.ms": "4000",
}


class TieredCluster(ClusterRig):
    """`async with TieredCluster() as cluster`; `store` is the folder of all."""

    def __init__(self, brokers: int = 2, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        super().__init__(brokers=brokers, config={**OF_CLUSTER, **settings})
        self.store_files = MemoryFileSystem(self.clock.wall_ms)
        self.store: RemoteStore = FolderStore(self.store_files, "/store")
        self._patches = ExitStack()

    async def __aenter__(self) -> TieredCluster:
        self._patches.enter_context(patch.object(tier_manager, "make_store", lambda *_: self.store))
        await super().__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            self._patches.close()

    # -- topics

    async def create_tiered(self, topic: str = "t", replicas: Sequence[int] = (1, 2, 3), **configs: str) -> None:
        """A topic of one partition; the first of `replicas` leads."""
        wanted = {**TOPIC_CONFIG, **{name.replace("_", "."): value for name, value in configs.items()}}
        asked = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=tuple(replicas)),),
            configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in wanted.items()),
        )
        fields = {"topics": (asked,), "timeout": MINUTE, "validate_only": False}
        done = await self.ask(self.client(CONTROLLER), "create_topics", 7, **fields)
        assert done.topics[0].error_code.name == "none", done
        await self.clock.run(1_000)

    async def configure(self, topic: str, **changed: str) -> None:
        """Let the topic have what `create_tiered` gave it, except for this."""
        wanted = {**TOPIC_CONFIG, **{name.replace("_", "."): value for name, value in changed.items()}}
        changes = tuple(AlterableConfig(name=name, value=value) for name, value in wanted.items())
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=changes)
        client = self.client(CONTROLLER)
        done = await self.ask(client, "alter_configs", 2, resources=(resource,), validate_only=False)
        assert [one.error_code.name for one in done.responses] == ["none"]

    async def delete(self, topic: str = "t") -> None:
        named = DeleteTopicState(name=topic, topic_id=None)
        done = await self.ask(self.client(CONTROLLER), "delete_topics", 6, topics=(named,), timeout=MINUTE)
        assert done.responses[0].error_code.name == "none"

    async def reassign(self, replicas: Sequence[int], topic: str = "t") -> None:
        partition = ReassignablePartition(partition_index=0, replicas=tuple(replicas))
        done = await self.ask(
            self.client(CONTROLLER),
            "alter_partition_reassignments",
            0,
            timeout=MINUTE,
            topics=(ReassignableTopic(name=topic, partitions=(partition,)),),
        )
        assert done.responses[0].partitions[0].error_code.name == "none", done

    async def move(self, to: int, topic: str = "t", index: int = 0) -> None:
        """Let another replica lead; brokers hear of it as time moves."""
        service = self.nodes[CONTROLLER].node.cluster.controller_service
        assert service is not None
        await self.during(service.move_leader(topic, index, to))
        await self.clock.run(200)

    # -- records

    def client(self, node_id: int) -> Client:
        return self.nodes[node_id].connect()

    def leader(self, topic: str = "t") -> int:
        known = self.nodes[CONTROLLER].node.cluster.cache.image.topics.get(topic)
        assert known is not None
        return known.partitions[0].leader

    def in_sync(self, topic: str = "t") -> list[int]:
        known = self.nodes[CONTROLLER].node.cluster.cache.image.topics.get(topic)
        assert known is not None
        return sorted(known.partitions[0].isr)

    def partition(self, node_id: int, topic: str = "t") -> Partition:
        return self.nodes[node_id].node.replicas.find(topic, 0)

    async def append(self, *values: bytes, topic: str = "t") -> None:
        """One batch for each value, acknowledged by all replicas."""
        client = self.client(self.leader(topic))
        for value in values:
            told = await self.ask(client, "produce", 9, **produce(topic, {0: batch(value)}))
            (result,) = told.responses[0].partition_responses
            assert result.error_code.name == "none", result

    async def delete_records(self, before: int, topic: str = "t") -> None:
        client = self.client(self.leader(topic))
        told = await self.ask(client, "delete_records", 2, **records_before(topic, before))
        assert told.topics[0].partitions[0].error_code.name == "none"

    async def read_once(self, node_id: int, offset: int, topic: str = "t", **fields: Any) -> Any:
        """The partition's answer to one Fetch 12."""
        told = await self.ask(self.client(node_id), "fetch", 12, **fetch([(topic, 0, offset)], **fields))
        return told.responses[0].partitions[0]

    async def read_all(self, offset: int = 0, node_id: int | None = None, topic: str = "t") -> list[bytes | None]:
        """The values from an offset on to the high watermark, as the leader has them, or another node."""
        found: list[bytes | None] = []
        for _ in range(500):
            told = await self.read_once(node_id or self.leader(topic), offset, topic)
            assert told.error_code.name == "none", (offset, told.error_code)
            records = records_in(bytes(told.records or b""), offset)
            found += [value for _, value in records]
            if records:
                offset = records[-1][0] + 1
            if offset >= told.high_watermark:
                return found
        raise AssertionError(f"nothing comes at {offset}")

    # -- remote storage

    def stored(self) -> list[StoredObject]:
        return list(self.store.objects())

    def segments(self, node_id: int, topic: str = "t") -> RemoteSegments:
        """What a node knows of the topic's segments."""
        return self.tier(node_id).partitions[topic, 0].tier.segments

    def copies(self, node_id: int) -> int:
        """How many segments a node has copied."""
        return self.tier(node_id).reader.counts.total(Count.COPY_REQUESTS)

    def tier(self, node_id: int) -> tier_manager.TierManager:
        tier = self.nodes[node_id].node.tier
        assert tier is not None
        return tier
