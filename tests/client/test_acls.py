"""Stock clients under ACLs: what they are told without a right, with one, and when it is taken away meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from odradek import Broker
from tests.brokers import sound_broker
from tests.client import kafka_node, other_languages
from tests.client.secure import SENT, Login

USERS = {"admin": "admin-secret", "app": "app-secret"}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "a key",
}
PATIENCE_S = 30.0
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
REVOKED = {
    "franz-go": "TOPIC_AUTHORIZATION_FAILED",
    "kafkajs": "TOPIC_AUTHORIZATION_FAILED",
}
"""What clients say of a topic that they may no longer write, beside Apache Kafka 4.4 too."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with sound_broker(SETTINGS, security="SASL_PLAINTEXT", users=USERS) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient(broker.client_config("confluent", user="admin"))


def binding(kind: ResourceType, name: str, operation: AclOperation, *, prefixed: bool = False) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    return AclBinding(kind, name, pattern, "User:app", "*", operation, AclPermissionType.ALLOW)


def allow(admin: AdminClient, *bindings: AclBinding) -> None:
    for made in admin.create_acls(list(bindings)).values():
        made.result(PATIENCE_S)


def acls_of(name: str, pattern: ResourcePatternType) -> AclBindingFilter:
    """Those of whatever has this name, for anybody."""
    anybody: Any = None  # confluent_kafka's types do not know that this is allowed
    return AclBindingFilter(ResourceType.ANY, name, pattern, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY)


def revoke(admin: AdminClient, name: str) -> int:
    """Take away all rights to what has this name; return how many there were."""
    every = acls_of(name, ResourcePatternType.ANY)
    return sum(len(done.result(PATIENCE_S)) for done in admin.delete_acls([every]).values())


def create(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)


def test_confluent_kafka_is_told_what_it_may_not_do(broker: Broker, admin: AdminClient) -> None:
    create(admin, "confluent")
    outcomes: list[KafkaError | None] = []
    producer = Producer(broker.client_config("confluent", user="app"))
    producer.produce("confluent", b"1", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(PATIENCE_S)
    assert [error and error.code() for error in outcomes] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    allow(admin, binding(ResourceType.TOPIC, "conf", WRITE, prefixed=True))
    outcomes.clear()
    producer = Producer(broker.client_config("confluent", user="app") | {"enable.idempotence": True})
    producer.produce("confluent", b"2", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(PATIENCE_S)
    assert outcomes == [None]
    other = AdminClient(broker.client_config("confluent", user="app"))
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        other.create_acls([binding(ResourceType.TOPIC, "mine", READ)])[
            binding(ResourceType.TOPIC, "mine", READ)
        ].result()


def test_acls_are_listed_as_they_were_made(admin: AdminClient) -> None:
    made = [binding(ResourceType.TOPIC, "listed", READ), binding(ResourceType.GROUP, "listed", READ)]
    allow(admin, *made)
    wanted = acls_of("listed", ResourcePatternType.MATCH)
    assert set(admin.describe_acls(wanted).result(PATIENCE_S)) == set(made)
    assert revoke(admin, "listed") == 2
    assert admin.describe_acls(wanted).result(PATIENCE_S) == []


async def test_aiokafka_loses_its_right_in_the_middle_of_a_session(broker: Broker, admin: AdminClient) -> None:
    config = broker.client_config("aiokafka", user="app")
    await asyncio.to_thread(create, admin, "session")
    topic = (binding(ResourceType.TOPIC, "session", READ), binding(ResourceType.TOPIC, "session", WRITE))
    await asyncio.to_thread(allow, admin, *topic, binding(ResourceType.GROUP, "readers", READ))
    async with (
        AIOKafkaProducer(**config) as producer,
        AIOKafkaConsumer("session", group_id="readers", auto_offset_reset="earliest", **config) as consumer,
    ):
        await producer.send_and_wait("session", b"while it may")
        assert (await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value == b"while it may"
        assert await asyncio.to_thread(revoke, admin, "session") == 2
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("session", b"no more")
        with pytest.raises(TopicAuthorizationFailedError):
            await asyncio.wait_for(consumer.getone(), PATIENCE_S)
    await asyncio.to_thread(allow, admin, *topic)
    consumer = AIOKafkaConsumer("session", group_id="not ours", **config)
    with pytest.raises(GroupAuthorizationFailedError):
        await consumer.start()
        await asyncio.wait_for(consumer.getone(), PATIENCE_S)
    await consumer.stop()


@pytest.mark.parametrize("name", other_languages.COMMANDS)
def test_other_clients_lose_a_right_in_the_middle_of_a_session(broker: Broker, admin: AdminClient, name: str) -> None:
    if isinstance(reason := other_languages.COMMANDS[name](), str):
        pytest.skip(reason)
    topic = f"session of {name}".replace(" ", "-")
    create(admin, topic)
    right = binding(ResourceType.TOPIC, topic, WRITE)
    allow(admin, right)
    login = Login("SASL_PLAINTEXT", "PLAIN", "app", USERS["app"])
    with other_languages.session(name, broker.bootstrap_servers, topic, login) as send:
        assert send("while it may") == SENT
        assert revoke(admin, topic) == 1
        assert send("no more") == REVOKED[name]
        allow(admin, right)
        assert send("again") == SENT


def tool(broker: Broker, folder: Path, name: str, *args: str, **changed: str) -> str:
    """What a tool of Kafka's says, as the super user, or with other settings of the client."""
    settings = folder / "client.properties"
    config = broker.client_config("java", user="admin") | changed
    settings.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    command = kafka_node.command(
        name, "--bootstrap-server", config["bootstrap.servers"], "--command-config", str(settings), *args
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return run.stdout + run.stderr


def test_kafkas_own_tool_for_acls(broker: Broker, tmp_path: Path) -> None:
    command = "org.apache.kafka.tools.AclCommand"
    acl = ("--allow-principal", "User:app", "--operation", "Read", "--topic", "orders-")
    assert "Adding ACLs" in tool(broker, tmp_path, command, "--add", *acl, "--resource-pattern-type", "prefixed")
    listed = tool(broker, tmp_path, command, "--list", "--topic", "orders-1", "--resource-pattern-type", "match")
    assert "principal=User:app, host=*, operation=READ, permissionType=ALLOW" in listed


def test_javas_client_comes_by_a_delegation_token_and_then_is_its_owner(broker: Broker, tmp_path: Path) -> None:
    command = "org.apache.kafka.tools.DelegationTokenCommand"
    made = tool(broker, tmp_path, command, "--create", "--max-life-time-period", "-1")
    token_id, secret = next(line.split()[:2] for line in made.splitlines() if "User:admin" in line)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required tokenauth="true" username="{token_id}" password="{secret}";'
    by_token = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
    topics = "org.apache.kafka.tools.TopicCommand"
    assert "by-token" in tool(broker, tmp_path, topics, "--create", "--topic", "by-token", **by_token)
    wrong = by_token | {"sasl.jaas.config": login.replace(secret, "d3Jvbmc=")}
    assert "invalid credentials" in tool(broker, tmp_path, topics, "--list", **wrong)


def test_a_broker_of_a_test_with_acls() -> None:
    acls = ["app WRITE TOPIC orders-*", "app READ GROUP readers"]
    with Broker(security="SASL_PLAINTEXT", users=USERS, acls=acls, settings={"super.users": "User:admin"}) as broker:
        create(AdminClient(broker.client_config("confluent", user="admin")), "orders-1")
        outcomes: list[KafkaError | None] = []
        producer = Producer(broker.client_config("confluent", user="app"))
        for topic in ("orders-1", "payments"):
            producer.produce(topic, b"1", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(PATIENCE_S)
    assert [error and error.code() for error in outcomes] in (
        [None, KafkaError.TOPIC_AUTHORIZATION_FAILED],
        [KafkaError.TOPIC_AUTHORIZATION_FAILED, None],
    )
    with pytest.raises(ValueError, match="expected a list"):
        Broker(acls="app READ TOPIC t")
