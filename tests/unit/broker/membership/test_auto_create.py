"""Topics made because Metadata asked for them."""

from __future__ import annotations

import asyncio

from kio.schema.metadata.v12.request import MetadataRequestTopic
from structlog.testing import capture_logs

from broker.node import RETRY_MS
from controller.decision import NoQuota
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig


async def asked(client: Client, *names: str) -> list[str]:
    """The errors of the topics in this order, after a first answer that has them made."""
    topics = tuple(MetadataRequestTopic(topic_id=None, name=name) for name in names)
    for _ in range(2):
        answer = await client.ask(
            "metadata", 12, topics=topics, allow_auto_topic_creation=True, include_topic_authorized_operations=False
        )
        await settle()
    errors = {topic.name: topic.error_code.name for topic in answer.topics}
    return [errors[name] for name in names]


async def test_names_of_one_request_do_not_collide_with_each_other() -> None:
    async with Rig() as rig:
        client = rig.connect()
        assert await asked(client, "a.b", "a_b") == ["none", "none"]
        assert await asked(client, "a.b", "c", "c_d") == ["none", "none", "none"]


async def test_a_name_that_collides_with_a_topic_hinders_no_other() -> None:
    async with Rig() as rig:
        await rig.create("a.b")
        with capture_logs() as lines:
            assert await asked(rig.connect(), "a_b", "c") == ["unknown_topic_or_partition", "none"]
        assert [line["topic"] for line in lines if line["event"] == "topic created on first use"] == ["c"]


async def test_the_metadata_log_is_no_topic_to_be_made() -> None:
    async with Rig() as rig:
        assert await asked(rig.connect(), "__cluster_metadata") == ["unknown_topic_or_partition"]
        assert rig.node.cluster.cache.topic("__cluster_metadata") is None


async def test_the_state_of_share_groups_has_configurations_of_its_own() -> None:
    name = "__share_group_state"
    prefix = "share.coordinator.state.topic."
    async with Rig(config={f"{prefix}replication.factor": "3"}) as rig:  # more than there are brokers
        assert await asked(rig.connect(), name) == ["unknown_topic_or_partition"]
    config = {"num.partitions": "3", "segment.bytes": "2000000"}
    async with Rig(config={prefix + key: value for key, value in config.items()}) as rig:
        assert await asked(rig.connect(), name) == ["none"]
        topic = rig.node.cluster.cache.topic(name)
        assert topic is not None
        assert len(topic.partitions) == 3
        assert dict(rig.node.cluster.cache.topic_configs(name)) == {  # as Kafka makes it
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": "1",
            "retention.ms": "-1",
            "segment.bytes": "2000000",
        }


async def test_a_topic_that_somebody_else_makes_meanwhile_counts_as_made() -> None:
    async with Rig() as rig:
        creating = asyncio.ensure_future(rig.create("y"))
        await asyncio.sleep(0)  # it is on its way to the disk
        assert await asked(rig.connect(), "x", "y") == ["none", "none"]
        await creating


async def test_a_topic_whose_log_cannot_be_made_exists_and_hinders_no_other() -> None:
    async with Rig() as rig:
        rig.fs.open("/data/bad-0", create=True).close()  # where its folder would be
        others = [f"t{number}" for number in range(9)]
        assert await asked(rig.connect(), "bad", *others) == ["none"] * 10
        assert [partition.topic for partition in rig.node.replicas if partition.log.is_offline] == ["bad"]
        rig.fs.unlink("/data/bad-0")
        await rig.clock.run(RETRY_MS)
        assert not rig.node.replicas.is_offline("bad", 0)


async def test_a_stop_waits_for_a_creation_that_has_begun_and_none_begins_after_it() -> None:
    rig = Rig()
    await rig.start()
    client = rig.connect()
    topics = tuple(MetadataRequestTopic(topic_id=None, name=f"t{number}") for number in range(50))
    fields = {"allow_auto_topic_creation": True, "include_topic_authorized_operations": False}
    client.send("metadata", 12, topics=topics, **fields)
    await asyncio.sleep(0)
    await rig.stop()
    rig.node.cluster.auto_topics.begin(["late"], NoQuota())
    await settle()
    assert {topic.name for topic in rig.node.cluster.cache.image.topics} == {topic.name for topic in topics}
