"""Dead letters for partitions that other brokers lead."""

from __future__ import annotations

import asyncio
from typing import Any

from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsResource

from broker.share.dead_letters import ENABLE, LetterQueues
from protocol.records.batch import read_header
from protocol.records.build import Record, build_batch, iter_records
from tests.unit.broker.cluster.three_brokers import Cluster
from tests.unit.broker.cluster_rig import ClusterRig

TOPIC = "dlq.t"
PARTITIONS = 6
TOPIC_RESOURCE = 2


async def test_dead_letters_are_written_to_every_partition_whoever_leads_it() -> None:
    async with ClusterRig(brokers=2) as cluster:
        assert await cluster.create(1, TOPIC, PARTITIONS) == "none"
        await _allow(cluster, "TRUE")
        node = cluster.nodes[1].node
        queues = LetterQueues(node.coordinators.share._host)
        leaders = set()
        for index in range(PARTITIONS):
            value = b"letter %d" % index
            await cluster.during(_write(queues, index, value))
            topic = node.cluster.cache.topic(TOPIC)
            assert topic is not None
            leader = topic.partitions[index].leader
            leaders.add(leader)
            log: Any = cluster.nodes[leader].node.replicas.find(TOPIC, index).log
            data = bytes(await log.plan_read(0, 1 << 20, log.end, True).read())
            assert [one.value for one in iter_records(data, read_header(data))] == [value]
        assert len(leaders) > 1, "a partition that another node leads is among them"


async def test_a_dead_letter_is_written_though_its_queue_comes_to_be_led_elsewhere_meanwhile() -> None:
    async with Cluster(replicas=3) as cluster:
        await cluster.create_replicated(TOPIC)
        await _allow(cluster)
        for away in (False, True):
            leader = cluster.leader(0, TOPIC)
            other = leader % 3 + 1
            node = cluster.nodes[other if away else leader].node
            append = await LetterQueues(node.coordinators.share._host).partition(TOPIC, 0)
            before = node.replicas.find(TOPIC, 0).log_end_offset
            await cluster.move(TOPIC, 0, other)
            await cluster.clock.run(1_000)
            await cluster.during(append(bytes(build_batch([Record(0, 0, None, b"v", ())]))))
            assert cluster.nodes[other].node.replicas.find(TOPIC, 0).high_watermark == before + 1


async def test_a_dead_letter_is_sent_again_until_it_is_committed() -> None:
    async with Cluster(replicas=3) as cluster:
        await cluster.create_replicated(TOPIC)
        await _allow(cluster)
        leader = cluster.leader(0, TOPIC)
        other = leader % 3 + 1
        node = cluster.nodes[leader].node
        for node_id in {1, 2, 3} - {leader}:
            replicas = cluster.nodes[node_id].node.replicas
            replicas.fetchers.leave(replicas.find(TOPIC, 0))
        append = await LetterQueues(node.coordinators.share._host).partition(TOPIC, 0)
        written = asyncio.ensure_future(append(bytes(build_batch([Record(0, 0, None, b"v", ())]))))
        await cluster.clock.run(1_000)
        assert not written.done()
        await cluster.move(TOPIC, 0, other)
        await cluster.during(written)
        assert cluster.nodes[other].node.replicas.find(TOPIC, 0).high_watermark >= 1


async def _write(queues: LetterQueues, index: int, value: bytes) -> None:
    append = await queues.partition(TOPIC, index)
    await append(bytes(build_batch([Record(0, 0, None, value, ())])))


async def _allow(cluster: ClusterRig, how: str = "true") -> None:
    change = AlterableConfig(name=ENABLE, value=how)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=(change,))
    client = cluster.nodes[1].connect()
    done = await cluster.ask(client, "alter_configs", 2, resources=(resource,), validate_only=False)
    assert [one.error_code.name for one in done.responses] == ["none"]
    await cluster.clock.run(1_000)
