"""Faults over sockets, set through Python as through HTTP: what a client sees of each action, in each phase."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from odradek import Broker, ControlError, RemoteBroker, WaitTimeoutError
from odradek.faults import Fault
from tests.client.breaking import post, set_over_http
from tests.client.raw import RawConnection

WRITTEN = pytest.mark.parametrize(("phase", "written"), [("before", 1), ("after_append", 2)])
"""A phase, and how many records there are after that: each phase of more APIs is in `test_every_fault.py`."""

QUICK = {"message.timeout.ms": 1500, "socket.timeout.ms": 1500}
"""Settings of a producer that is to get no answer."""

Set = Callable[..., Fault]


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def cleared(broker: Broker) -> Iterator[None]:
    yield
    broker.clear_faults()


@pytest.fixture(params=["python", "http"])
def set_fault(request: pytest.FixtureRequest, broker: Broker) -> Set:
    """Sets a fault by the Python method, or as any other language would."""
    if request.param == "python":
        return broker.fault
    return partial(set_over_http, broker)


class Sent:
    """Records that a confluent-kafka producer without retries has sent, one by one, and how each fared."""

    def __init__(self, broker: Broker, topic: str, **settings: Any) -> None:
        self.outcomes: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "client.id": "sender",
                "retries": 0,
                "message.timeout.ms": 20_000,
                **settings,
            }
        )

    def send(self, value: bytes = b"v") -> str:
        """The name of the error, or "" for an acknowledged record."""
        self.begin(value)
        assert self._producer.flush(30) == 0
        return self.outcomes[-1]

    def begin(self, value: bytes = b"v") -> None:
        """Send without waiting for the outcome."""
        self._producer.produce(self._topic, value, partition=0, on_delivery=self._note)
        self._producer.poll(0)

    def acknowledged(self, count: int) -> bool:
        """Whether so many records have been acknowledged; waits a little for one more."""
        self._producer.poll(0.5)
        return self.outcomes.count("") == count

    def _note(self, error: Any, _message: Message) -> None:
        self.outcomes.append("" if error is None else error.name())


def end_offset(broker: Broker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 20)[1])
    finally:
        consumer.close()


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic that there is, with one record, so that no client waits for it."""
    assert Sent(broker, topic).send() == ""
    return topic


@WRITTEN
def test_error_reaches_the_client(broker: Broker, set_fault: Set, made: str, phase: str, written: int) -> None:
    sent = Sent(broker, made)
    with set_fault(api="Produce", topic=made, error="POLICY_VIOLATION", phase=phase) as fault:
        assert sent.send() == "POLICY_VIOLATION"
        assert fault.hits == 1
    assert sent.send() == ""
    assert end_offset(broker, made) == written + 1


def test_delay_holds_the_client_up(broker: Broker, set_fault: Set, made: str) -> None:
    sent = Sent(broker, made)
    set_fault(api="Produce", topic=made, delay=0.3, count=1)
    began = time.monotonic()
    assert sent.send() == ""
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(("drop", "written"), [("request", 1), ("reply", 2)])
def test_drop_leaves_the_client_without_an_answer(
    broker: Broker, set_fault: Set, made: str, drop: str, written: int
) -> None:
    sent = Sent(broker, made, **QUICK)
    fault = set_fault(api="Produce", topic=made, drop=drop, count=1)
    assert sent.send() == "_MSG_TIMED_OUT"
    fault.wait(1)
    assert end_offset(broker, made) == written


@WRITTEN
def test_disconnect_ends_the_connection(broker: Broker, set_fault: Set, made: str, phase: str, written: int) -> None:
    sent = Sent(broker, made)
    set_fault(api="Produce", topic=made, disconnect=True, phase=phase)
    assert sent.send() in ("_TRANSPORT", "_MSG_TIMED_OUT")
    assert end_offset(broker, made) == written


def test_observe_counts_and_decodes(broker: Broker, set_fault: Set, made: str) -> None:
    fault = set_fault(api="Produce", topic=made, observe=True)
    assert Sent(broker, made).send(b"seen") == ""
    fault.wait(1, timeout=5)
    (request,) = fault.requests
    assert (request["api"], request["client_id"], request["acks"]) == ("Produce", "sender", -1)
    (topic,) = request["topics"]
    assert (topic["name"], topic["partitions"][0]["records"][0]["value"]) == (made, "seen")


def test_the_other_apis_are_struck_too(broker: Broker, set_fault: Set, made: str) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"g-{made}", "client.id": "reader"}
    with set_fault(api="OffsetCommit", group=f"g-{made}", error="UNKNOWN_MEMBER_ID"):
        consumer = Consumer(config)
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            consumer.commit(offsets=[TopicPartition(made, 0, 1)], asynchronous=False)
    with set_fault(api="FindCoordinator", group=f"g-{made}-2", error="GROUP_AUTHORIZATION_FAILED") as fault:
        other = Consumer({**config, "group.id": f"g-{made}-2"})
        with pytest.raises(KafkaException):
            other.committed([TopicPartition(made, 0)], timeout=1)
        assert fault.requests[0]["coordinator_keys" if "coordinator_keys" in fault.requests[0] else "key"]
        other.close()
    with set_fault(api="ListOffsets", topic=made, error="LEADER_NOT_AVAILABLE", client_id="reader", count=1) as fault:
        consumer.get_watermark_offsets(TopicPartition(made, 0), 10)
        fault.wait(1)
    with set_fault(api="EndTxn", transactional_id=made, error="PRODUCER_FENCED"):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": made})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(made, b"v", partition=0)
        with pytest.raises(KafkaException, match="FENCED"):
            producer.commit_transaction(20)
    consumer.close()


async def test_an_aiokafka_consumer_gets_over_failing_fetches_joins_and_metadata(
    broker: Broker, set_fault: Set, made: str
) -> None:
    faults = [
        set_fault(api="Fetch", topic=made, error="NOT_LEADER_OR_FOLLOWER", count=2),
        set_fault(api="JoinGroup", group=f"g-{made}", error="COORDINATOR_NOT_AVAILABLE", count=1),
        set_fault(api="SyncGroup", group=f"g-{made}", error="REBALANCE_IN_PROGRESS", count=1),
        set_fault(api="Metadata", topic=made, error="LEADER_NOT_AVAILABLE", count=1),
    ]
    consumer = AIOKafkaConsumer(
        made,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"g-{made}",
        auto_offset_reset="earliest",
        retry_backoff_ms=20,
    )
    async with consumer:
        assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"v"
    for fault in faults:
        await fault.wait_async(1, timeout=5)


async def test_an_aiokafka_producer_learns_of_an_error(broker: Broker, set_fault: Set, made: str) -> None:
    set_fault(api=0, topic=made, partition=0, error=29)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        with pytest.raises(AioKafkaError, match="TopicAuthorizationFailed"):
            await producer.send_and_wait(made, b"v", partition=0)


def test_bad_input_names_the_parameter_through_python_and_http(broker: Broker) -> None:
    with pytest.raises(ControlError, match=r"such as Produce \(0\)") as caught:
        broker.fault(api="Prodoce", observe=True)
    assert (caught.value.parameter, caught.value.status) == ("api", 400)
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(broker, "/faults", api="Produce", error="NOT_LEADER")
    answer = json.loads(refused.value.read())
    assert (answer["parameter"], "NOT_LEADER_OR_FOLLOWER" in answer["error"]) == ("error", True)
    with pytest.raises(ControlError, match="expected one of request, reply"):
        broker.fault(api="Produce", drop="both")  # type: ignore[arg-type]
    with pytest.raises(ControlError, match="at = 'after_append': Fetch requests append nothing") as caught:
        broker.crash(at="after_append", api="Fetch")
    assert caught.value.parameter == "at"
    with pytest.raises(TypeError, match="topic: expected with at other than 'now'"):
        broker.crash(topic="t")  # type: ignore[call-overload]
    with pytest.raises(ControlError) as caught:
        broker.throttle(bytes_per_second=0)
    assert caught.value.parameter == "bytes_per_second"


def test_faults_are_listed_removed_and_waited_for(broker: Broker, made: str) -> None:
    first = broker.fault(api="Produce", topic=made, observe=True)
    second = broker.refuse_connections()
    assert [fault.id for fault in broker.faults] == [first.id, second.id]
    assert repr(first) == f"<Fault {first.id}: kind=fault, api=Produce, topic={made}, observe=True, phase=before>"
    with pytest.raises(
        WaitTimeoutError, match=r"waited 0\.1 s for 2 hits of the fault kind=fault, api=Produce, .* were 0"
    ):
        first.wait(2, timeout=0.1)
    first.remove()
    first.remove()
    assert broker.clear_faults() == 1
    assert (first.hits, first.requests, first.active, second.active) == (0, [], False, False)
    remote = RemoteBroker(broker.bootstrap_servers, broker.control.url)
    with remote.fault(api="Produce", topic=made, error="REQUEST_TIMED_OUT", count=1) as fault:
        Sent(broker, made, retries=3).send()
        assert fault.wait(n=1).hits == 1
        assert not fault.active
    assert remote.faults == []
    assert (fault.hits, len(fault.requests)) == (1, 1)
    assert post(broker, f"/faults/{fault.id}/wait", n=1)["hits"] == 1


# -- connections


def test_connections_are_cut_refused_stalled_and_slow(broker: Broker) -> None:
    with RawConnection(broker.bootstrap_servers) as connection:
        connection.ask()
        assert broker.disconnect(client_id="other") == 0
        assert broker.disconnect(client_id="raw") == 1
        assert connection.is_closed_by_broker()
    with broker.refuse_connections() as fault:
        try:  # the reset comes with the connection or right after it
            with RawConnection(broker.bootstrap_servers) as connection:
                assert connection.is_closed_by_broker()
        except ConnectionResetError:
            pass
        assert fault.wait().hits == 1
    with RawConnection(broker.bootstrap_servers) as connection:
        connection.ask()
        with broker.stall(client_id="raw"):
            connection.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.ask()
        connection.socket.settimeout(10)
        assert connection.read_frame()
        with post_fault(broker, "/throttle", client_id="raw", bytes_per_second=1000) as fault:
            began = time.monotonic()
            connection.ask()
            assert time.monotonic() - began > 0.2
            assert fault.hits == 1
    with post_fault(broker, "/stall", listener="PLAINTEXT"), RawConnection(broker.bootstrap_servers) as connection:
        connection.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.ask()


def post_fault(broker: Broker, path: str, **given: Any) -> Fault:
    return Fault(broker.control, post(broker, path, **given))


def test_other_clients_do_not_notice_a_stalled_one(broker: Broker, made: str) -> None:
    with broker.stall(client_id="sender"):
        assert Sent(broker, made, **{"client.id": "another"}).send() == ""
        assert Sent(broker, made, **QUICK).send() == "_MSG_TIMED_OUT"
    assert Sent(broker, made).send() == ""


@pytest.mark.parametrize(("security", "users"), [("SSL", ["alice"]), ("SASL_SSL", {"alice": "secret"})])
def test_faults_under_tls(security: str, users: Any, topic: str, own_cluster: None) -> None:
    with Broker(security=security, users=users) as broker:
        config = {**broker.client_config("confluent", user="alice"), "client.id": "sender"}
        sent = Sent(broker, topic, **config, **{"enable.idempotence": True, "retries": 5, "socket.timeout.ms": 1000})
        assert sent.send() == ""
        with broker.fault(api="Produce", drop="reply", count=1, listener=security) as fault:
            assert sent.send() == ""
            assert fault.hits == 1
        with broker.throttle(client_id="sender", bytes_per_second=20_000):
            began = time.monotonic()
            assert sent.send(b"x" * 10_000) == ""
            assert time.monotonic() - began > 0.4
        with broker.stall(client_id="sender") as stall:
            quick = Sent(broker, topic, **config, **QUICK)
            assert quick.send() == "_MSG_TIMED_OUT"
            assert stall.hits >= 1
        assert broker.disconnect(client_id="sender") >= 1
        assert sent.send() == ""
        assert len(broker.topic(topic).records()) == 4
        assert "Traceback" not in broker.log()


# -- crashes


def test_a_fault_that_ends_the_broker_has_struck_then_also_when_it_runs_again(topic: str, own_cluster: None) -> None:
    with Broker({"odradek.create.topics": f"{topic}:1"}) as broker:
        with broker.fault(api="Produce", topic=topic, then="crash") as fault:
            assert (fault.hits, fault.active) == (0, True)
            Sent(broker, topic, **QUICK).begin()
            assert fault.wait(1, timeout=20).hits == 1
            assert not broker.running
        assert "a test ends this process" in broker.log()
        broker.restart()
        assert (fault.wait().hits, fault.active) == (1, False)
        assert broker.faults == []
        with pytest.raises(ControlError, match="NOT_LEADER_OR_FOLLOWER"):
            broker.fault(api="Produce", error="NOT_LEADER", then="crash")
        remote = RemoteBroker(broker.bootstrap_servers, broker.control.url)
        crash = remote.fault(api="Metadata", then="power_failure")
        with pytest.raises(WaitTimeoutError, match="waited 0 s for 1 hits"):
            crash.wait(timeout=0)
        Sent(broker, topic, **QUICK).begin()
        assert crash.wait(timeout=20).hits == 1


def test_a_power_failure_loses_what_was_not_synced(topic: str, own_cluster: None) -> None:
    with Broker() as broker:
        sent = Sent(broker, topic)
        assert sent.send() == ""
        broker.crash()
        assert not broker.running
        broker.restart()
        assert end_offset(broker, topic) == 0
        assert Sent(broker, topic).send() == ""
        broker.crash(unsynced="kept")
        broker.restart()
        assert end_offset(broker, topic) == 1


@pytest.mark.parametrize(
    ("at", "acknowledged", "left"),
    [
        ("before", False, 0),
        ("after_append", False, 0),
        ("before_fsync", True, 0),
        ("after_fsync", False, 1),
        ("before_reply", False, 0),
    ],
)
def test_a_crash_in_a_phase_of_a_request(at: Any, acknowledged: bool, left: int, topic: str, own_cluster: None) -> None:
    with Broker({"odradek.create.topics": f"{topic}:1"}) as broker:
        with broker.crash(at=at, topic=topic) as crash:
            sent = Sent(broker, topic)
            sent.begin()
            crash.wait(timeout=20)
            assert sent.acknowledged(1 if acknowledged else 0)
        assert not broker.running
        broker.restart()
        assert end_offset(broker, topic) == left


def test_where_acknowledgements_wait_for_the_sync_a_crash_before_it_gives_none(topic: str, own_cluster: None) -> None:
    settings = {"log.flush.interval.messages": 1, "odradek.create.topics": f"{topic}:1"}
    with Broker(settings) as broker:
        sent = Sent(broker, topic)
        assert sent.send() == ""
        crash = RemoteBroker(broker.bootstrap_servers, broker.control.url).crash(at="before_fsync", topic=topic)
        sent.begin()
        crash.wait(timeout=20)
        assert sent.acknowledged(1)
        broker.restart()
        assert end_offset(broker, topic) == 1
