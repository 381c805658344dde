"""Rights in a cluster: the controller checks what a broker sends on for its client, and what other nodes ask."""

from __future__ import annotations

from typing import Any

from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.create_topics.v7.request import CreatableTopic

from broker.network.connection import Connection
from broker.network.request import Principal
from metadata.acls import AclOperation, PatternType, PermissionType, ResourceType
from protocol.durations import MILLISECOND
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig
from tests.unit.broker.rig import Client, FakeTransport

ALICE = Principal("User", "alice")
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the nodes themselves
}
BROKER = 2


def client_of(cluster: ClusterRig, node_id: int, listener: str = "PLAINTEXT") -> Client:
    """A client that has come as alice."""
    rig = cluster.nodes[node_id]
    connection = Connection(rig.node.server, rig.node.dispatcher, listener)
    transport = FakeTransport(connection, "10.0.0.7")
    connection.connection_made(transport)
    connection.principal = ALICE
    return Client(rig, transport, connection)


async def created(cluster: ClusterRig, *names: str) -> dict[str, str]:
    """The errors of topics that alice creates through a broker."""
    topics = tuple(
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()) for name in names
    )
    answer = await cluster.ask(
        client_of(cluster, BROKER),
        "create_topics",
        7,
        topics=topics,
        timeout=30_000 * MILLISECOND,
        validate_only=False,
    )
    return {one.name: one.error_code.name for one in answer.topics}


async def allow(cluster: ClusterRig, operation: AclOperation, name: str) -> str:
    """Give alice a right to a topic, through a broker."""
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=str(ALICE),
        host="*",
        operation=operation,
        permission_type=PermissionType.ALLOW,
    )
    answer = await cluster.ask(cluster.nodes[BROKER].connect(), "create_acls", 3, creations=(creation,))
    code: str = answer.results[0].error_code.name
    return code


async def test_a_request_that_a_broker_sends_on_is_checked_for_its_client() -> None:
    async with ClusterRig(brokers=1, config=SETTINGS) as cluster:
        assert await created(cluster, "mine", "other") == {
            "mine": "topic_authorization_failed",
            "other": "topic_authorization_failed",
        }
        assert await allow(cluster, AclOperation.CREATE, "mine") == "none"
        assert await created(cluster, "mine", "other") == {"mine": "none", "other": "topic_authorization_failed"}
        acls = await cluster.ask(client_of(cluster, BROKER), "delete_acls", 3, filters=())
        assert acls.filter_results == ()
        assert len(cluster.nodes[BROKER].node.cluster.cache.image.acls) == 1


async def test_a_broker_obeys_the_acls_that_the_controller_made() -> None:
    async with ClusterRig(brokers=1, config=SETTINGS) as cluster:
        assert await cluster.create(BROKER, "t", 1) == "none"
        asked: dict[str, Any] = {"topics": (), "response_partition_limit": 10, "cursor": None}
        client = client_of(cluster, BROKER)
        hidden = await cluster.ask(client, "describe_topic_partitions", 0, **asked)
        assert hidden.topics == ()
        assert await allow(cluster, AclOperation.DESCRIBE, "t") == "none"
        await cluster.clock.run(2_000)
        shown = await cluster.ask(client, "describe_topic_partitions", 0, **asked)
        assert [topic.name for topic in shown.topics] == ["t"]


async def test_nobody_acts_as_another_node_without_the_right() -> None:
    async with ClusterRig(brokers=0, config=SETTINGS) as cluster:
        stranger = client_of(cluster, CONTROLLER, "CONTROLLER")
        fields = {
            "broker_id": CONTROLLER,
            "broker_epoch": 1,
            "current_metadata_offset": 1,
            "want_fence": True,
            "want_shut_down": True,
        }
        answer = await cluster.ask(stranger, "broker_heartbeat", 0, **fields)
        assert answer.error_code.name == "cluster_authorization_failed"
        envelope = {"request_data": b"", "request_principal": None, "client_host_address": b"\x7f\0\0\1"}
        answer = await cluster.ask(stranger, "envelope", 0, **envelope)
        assert answer.error_code.name == "cluster_authorization_failed"
