"""Dead letters for partitions that other brokers lead."""

from __future__ import annotations

from typing import Any

from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsResource

from broker.share.letter_queues import ENABLE, LetterQueues
from protocol.records.batch import read_header
from protocol.records.build import Record, build_batch, iter_records
from tests.unit.broker.cluster_rig import ClusterRig

TOPIC = "dlq.t"
PARTITIONS = 6
TOPIC_RESOURCE = 2


async def test_letters_are_written_to_every_partition_whoever_leads_it() -> None:
    async with ClusterRig(brokers=2) as cluster:
        assert await cluster.create(1, TOPIC, PARTITIONS) == "none"
        change = AlterableConfig(name=ENABLE, value="true")
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=(change,))
        client = cluster.nodes[1].connect()
        done = await cluster.ask(client, "alter_configs", 2, resources=(resource,), validate_only=False)
        assert [one.error_code.name for one in done.responses] == ["none"]
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


async def _write(queues: LetterQueues, index: int, value: bytes) -> None:
    append = await queues.partition(TOPIC, index)
    await append(bytes(build_batch([Record(0, 0, None, value, ())])))
