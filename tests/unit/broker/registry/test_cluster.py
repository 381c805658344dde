"""A registry at each node of a cluster: whoever is asked, the node that leads `_schemas-0` answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsResource

from broker.registry.calls import Answer, Asked
from broker.registry.forwarding import Forwarding
from broker.registry.registry import Registry
from broker.registry.rights import Rights
from metadata.configs import ResourceType
from tests.unit.broker.cluster_rig import ClusterRig
from tests.unit.broker.registry.rig import body, record

A, B = record("a:int"), record("a:int", "b:int=1")
CONFIG = {"default.replication.factor": "3", "min.insync.replicas": "2"}


class Registries(ClusterRig):
    """A cluster of three nodes, each with a registry, but for `without`."""

    def __init__(self, without: int | None = None) -> None:
        super().__init__(brokers=2, config=CONFIG)
        self.registries: dict[int, Registry] = {}
        self._without = without

    async def __aenter__(self) -> Registries:
        await super().__aenter__()
        for node_id in self.nodes:
            if node_id != self._without:
                self.open(node_id)
        return self

    def open(self, node_id: int) -> None:
        node = self.nodes[node_id].node
        forwarding = Forwarding(node)
        self.registries[node_id] = Registry(node, forwarding.send)
        forwarding.begin(self.registries[node_id])

    async def answer(self, node_id: int, method: str, path: str, given: Any = None, **more: Any) -> Answer:
        return await self.during(self.registries[node_id].answer(Asked(method, path, given), Rights(), **more))

    async def register(self, node_id: int, subject: str, schema: Any) -> Any:
        answer = await self.answer(node_id, "POST", f"/subjects/{subject}/versions", body(schema))
        assert answer.status == 200, answer.value
        return answer.value

    @property
    def leader(self) -> int:
        topic = self.nodes[1].node.cluster.cache.topic("_schemas")
        assert topic is not None
        return topic.partitions[0].leader

    def let_followers(self, *, follow: bool) -> None:
        """Node 2 leads; the others go on fetching, or do not."""
        for node_id in (1, 3):
            replicas = self.nodes[node_id].node.replicas
            (replicas.fetchers.follow if follow else replicas.fetchers.leave)(replicas.find("_schemas", 0))

    async def lead_elsewhere(self) -> None:
        """Let the leader be killed, and wait until another one leads."""
        before = self.leader
        assert before != 1, "node 1 is the controller"
        await self.kill(before)
        while self.leader in (before, -1):
            await self.clock.run(1000)


async def until_led_by_a_broker(cluster: Registries) -> None:
    """The first replica leads; it must not be the controller, which alone can choose another one."""
    await cluster.create(1, "_schemas", 1, replicas=(2, 3, 1))
    client = cluster.nodes[1].connect()
    configs = (AlterableConfig(name="cleanup.policy", value="compact"),)
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="_schemas", configs=configs)
    await cluster.ask(client, "alter_configs", 2, resources=(resource,), validate_only=False)


async def test_the_topic_has_as_many_replicas_as_there_are_brokers() -> None:
    async with Registries() as cluster:
        await cluster.register(2, "s", A)
        topic = cluster.nodes[1].node.cluster.cache.topic("_schemas")
        assert topic is not None
        assert len(topic.partitions[0].replicas) == 3


async def test_every_node_answers_what_the_leader_would() -> None:
    async with Registries() as cluster:
        assert [(await cluster.register(node_id, f"s{node_id}", A))["id"] for node_id in (1, 2, 3)] == [1, 1, 1]
        assert (await cluster.register(3, "s1", B))["id"] == 2
        for path in (
            "/subjects",
            "/subjects/s1/versions/latest",
            "/schemas/ids/2",
            "/subjects/none/versions",
            "/config",
        ):
            answers = [await cluster.answer(node_id, "GET", path) for node_id in (1, 2, 3)]
            assert answers[0] == answers[1] == answers[2], path
        text = [await cluster.answer(node_id, "GET", "/schemas/ids/1/schema") for node_id in (1, 2, 3)]
        assert {type(each.value).__name__ for each in text} == {"RawText"}


async def test_a_request_is_sent_on_once() -> None:
    async with Registries() as cluster:
        await cluster.register(1, "s", A)
        follower = next(node_id for node_id in (1, 2, 3) if node_id != cluster.leader)
        refused = await cluster.answer(follower, "GET", "/subjects", forwarded=True)
        assert (refused.status, refused.value["error_code"]) == (500, 50004)


async def test_a_leader_without_a_registry_is_said_to_have_none() -> None:
    async with Registries(without=2) as cluster:
        await until_led_by_a_broker(cluster)
        refused = await cluster.answer(1, "GET", "/subjects")
        assert (refused.status, refused.value["error_code"]) == (500, 50003)
        assert "Has it a schema registry" in refused.value["message"]


async def test_the_next_leader_knows_all_that_was_answered_and_gives_no_id_again() -> None:
    async with Registries() as cluster:
        await until_led_by_a_broker(cluster)
        made = [await cluster.register(3, f"s{at}", record(f"f{at}:int")) for at in range(4)]
        assert [each["id"] for each in made] == [1, 2, 3, 4]
        assert cluster.leader == 2
        await cluster.lead_elsewhere()
        for at, each in enumerate(made):
            found = await cluster.answer(1, "GET", f"/subjects/s{at}/versions/latest")
            assert (found.value["id"], found.value["guid"]) == (each["id"], each["guid"])
        assert (await cluster.register(1, "next", record("next:int")))["id"] == 5


async def test_what_cannot_be_committed_is_not_answered_as_done() -> None:
    async with Registries() as cluster:
        await until_led_by_a_broker(cluster)
        await cluster.register(2, "s", A)
        cluster.let_followers(follow=False)
        refused = await cluster.answer(2, "POST", "/subjects/s/versions", body(B))
        assert (refused.status, refused.value["error_code"]) == (500, 50002)
        cluster.let_followers(follow=True)
        again = await cluster.register(2, "s", B)
        assert (again["id"], again["version"]) == (2, 2)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/subjects"), ("POST", "/subjects/s/versions")], ids=["reads", "changes"]
)
async def test_while_nothing_is_committed_nobody_waits_for_all_that_asked_before(method: str, path: str) -> None:
    async with Registries() as cluster:
        await until_led_by_a_broker(cluster)
        await cluster.register(2, "s", A)
        cluster.let_followers(follow=False)
        await cluster.answer(2, "POST", "/subjects/s/versions", body(B))
        cluster.open(2)  # so that it has to read the topic
        asked = Asked(method, path, body(B))
        began_ms = cluster.clock.monotonic_ms()
        answers = await cluster.during(
            asyncio.gather(*(cluster.registries[2].answer(asked, Rights()) for _ in range(10)))
        )
        assert {answer.value["error_code"] for answer in answers} == {50002}
        assert cluster.clock.monotonic_ms() - began_ms < 25_000
