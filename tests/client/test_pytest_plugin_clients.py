"""Clients in a user's suite: the plugin's configurations and factories, with and without asyncio and security."""

from __future__ import annotations

import pytest

from tests.client.plugin_runs import run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("own_cluster")

CLIENTS = """
import pytest

async def aiokafka_round_trip(config, topic):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async with AIOKafkaProducer(**config("aiokafka")) as producer:
        await producer.send_and_wait(topic, b"v")
    settings = config("aiokafka", group_id="g", auto_offset_reset="earliest")
    async with AIOKafkaConsumer(topic, **settings) as consumer:
        assert (await consumer.getone()).value == b"v"
"""


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_with_pytest_asyncio(pytester: pytest.Pytester, mode: str) -> None:
    mark = "@pytest.mark.asyncio\n" if mode == "strict" else ""
    source = f"""
{CLIENTS}
import pytest_asyncio
from aiokafka import AIOKafkaProducer

@pytest_asyncio.fixture
async def producer(odradek_client_config):
    async with AIOKafkaProducer(**odradek_client_config("aiokafka")) as producer:
        yield producer

{mark}async def test_round_trip(odradek_client_config, odradek_topic):
    await aiokafka_round_trip(odradek_client_config, odradek_topic)

{mark}async def test_fixture(producer, odradek_topic):
    await producer.send_and_wait(odradek_topic, b"v")
    assert await odradek_topic.wait_async(1)

{mark}async def test_clean(odradek):
    assert odradek.topics() == {{}}
    await odradek.clock.advance_async(minutes=1)
"""
    run(pytester, source, "-o", f"asyncio_mode={mode}").assert_outcomes(passed=3)


def test_with_anyio(pytester: pytest.Pytester) -> None:
    pytest.importorskip("anyio")
    source = f"""
{CLIENTS}
@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_round_trip(odradek_client_config, odradek_topic):
    await aiokafka_round_trip(odradek_client_config, odradek_topic)

@pytest.mark.anyio
@pytest.mark.odradek(topics={{"t": 2}})
async def test_marker(odradek, odradek_topics):
    assert list(odradek.topics()) == ["t"]
"""
    run(pytester, source).assert_outcomes(passed=2)


def test_configurations_of_blocking_clients(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_confluent(odradek_client_config, odradek_topic):
            from confluent_kafka import Consumer, Producer

            producer = Producer(odradek_client_config("confluent", **{"client.id": "me"}))
            producer.produce(odradek_topic, b"v")
            assert producer.flush(10) == 0
            more = {"group.id": "g", "auto.offset.reset": "earliest"}
            consumer = Consumer(odradek_client_config("confluent", **more))
            consumer.subscribe([odradek_topic])
            assert consumer.poll(10).value() == b"v"
            consumer.close()

        def test_kafka_python(odradek_client_config, odradek_topic):
            from kafka import KafkaConsumer, KafkaProducer

            producer = KafkaProducer(**odradek_client_config("kafka-python"))
            producer.send(odradek_topic, b"v").get(10)
            producer.close()
            more = {"group_id": "g", "auto_offset_reset": "earliest"}
            consumer = KafkaConsumer(odradek_topic, **odradek_client_config("kafka-python", **more))
            assert next(consumer).value == b"v"
            consumer.close()

        def test_java(odradek_client_config, odradek):
            assert odradek_client_config("java")["bootstrap.servers"] == odradek.bootstrap_servers
        """,
    )
    result.assert_outcomes(passed=3)


def test_secure_broker_and_factories_with_security(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from odradek.pytest import factories

        own = factories.broker("own", security="SASL_PLAINTEXT", users={"me": "pw"})

        limited = factories.broker(
            "limited", security="SASL_PLAINTEXT", users={"app": "pw"}, acls=["app ALL TOPIC orders-*"]
        )

        @pytest.fixture(scope="session")
        def odradek_users():
            return {"app": "app-secret", "other": "secret"}

        @pytest.fixture(scope="session")
        def odradek_acls():
            return ["app ALL TOPIC t", "other READ TOPIC t"]
        """
    )
    result = run(
        pytester,
        """
        import pytest
        from confluent_kafka import Producer

        REFUSED = "TOPIC_AUTHORIZATION_FAILED"

        def error_of_sending(config, topic="t"):
            producer, found = Producer(config), []
            producer.produce(topic, b"v", on_delivery=lambda error, _: found.append(error and error.name()))
            assert producer.flush(30) == 0
            return found[0]

        @pytest.mark.parametrize(("user", "error"), [("app", None), ("other", REFUSED)])
        def test_secure(odradek_secure_broker, user, error):
            assert error_of_sending(odradek_secure_broker.client_config("confluent", user=user)) == error

        def test_own(own):
            assert error_of_sending(own.client_config("confluent")) is None

        @pytest.mark.parametrize(("topic", "error"), [("orders-1", None), ("t", REFUSED)])
        def test_limited(limited, topic, error):
            assert error_of_sending(limited.client_config("confluent"), topic) == error
        """,
    )
    result.assert_outcomes(passed=5)
