"""The journal, the explanation and the report of a failing test, of brokers that stock clients use."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from odradek import Broker, ControlError
from odradek.__main__ import main
from tests.brokers import sound_broker

LONG = 30
"""Seconds for what takes a few on an idle machine."""


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker() as broker:
        yield broker


@pytest.fixture
def name() -> str:
    return f"k-{uuid.uuid4().hex[:10]}"


def write(broker: Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "writer"})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(LONG) == 0


def test_the_journal_shows_what_a_client_asked_and_got(broker: Broker, name: str) -> None:
    mark = broker.journal(limit=0).mark
    write(broker, name, 2)
    asked = broker.journal(since=mark, client_id="writer")
    assert {"ApiVersions", "Metadata", "Produce"} <= {entry.api for entry in asked}
    produced, *_ = broker.journal(since=mark, client_id="writer", api="Produce")
    assert produced.request is not None
    assert produced.answer is not None
    assert produced.answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE"
    assert (produced.outcome, produced.kind, produced.client_id) == ("answered", "request", "writer")
    line = str(produced)
    assert "writer Produce v" in line
    assert " -> " in line
    kinds = [entry.kind for entry in broker.journal(since=mark)]
    assert "connection opened" in kinds
    assert broker.journal(since=broker.journal(limit=0).mark) == []
    with pytest.raises(ControlError, match="Produce") as caught:
        broker.journal(api="Prduce")
    assert caught.value.parameter == "api"


def test_a_consumer_that_does_not_poll_is_found_out(broker: Broker, name: str) -> None:
    write(broker, name, 3)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": name,
            "client.id": "lazy",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.subscribe([name])
        assert consumer.poll(LONG) is not None
        consumer.pause(consumer.assignment())
        broker.group(name).wait(state="Stable", members=1, timeout=LONG)
        explained = broker.explain(group=name)
        assert "has_never_committed" in explained.rules
        assert "group_does_not_exist" not in explained.rules
    finally:
        consumer.close()
    explained = broker.explain(group=name)
    assert [finding.rule for finding in explained.problems] == ["group_is_empty"]
    assert "Empty" in str(explained)


async def test_the_transaction_that_holds_a_consumer_back_is_named(broker: Broker, name: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{name}-tx", client_id="slow"
    )
    consumer = AIOKafkaConsumer(
        name,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=name,
        client_id="stuck",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await producer.start()
    await consumer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"a", partition=0)
        await broker.group(name).wait_async(state="Stable", members=1, timeout=LONG)
        await consumer.getmany(timeout_ms=500)
        explained = broker.explain(group=name)
        (held,) = [finding for finding in explained if finding.rule == "held_by_transaction"]
        assert held.severity == "problem"
        assert f"transactional id {name}-tx (client slow at 127.0.0.1)" in held.text
        assert "stuck reads committed records only" in held.text
        assert explained[0] in explained.problems
        assert "held_by_transaction" in broker.explain(topic=name).rules
        assert "is_open" in broker.explain(transactional_id=f"{name}-tx").rules
        report = broker.report()
        assert f"{name}-tx: Ongoing for" in report
        assert f"{name}: 0: 0..1 (held at 0)" in report
        await producer.commit_transaction()
        assert "held_by_transaction" not in broker.explain(group=name).rules
    finally:
        await consumer.stop()
        await producer.stop()


def test_the_command_explains_a_running_broker(
    broker: Broker, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def explain(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["odradek", "explain", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    assert explain("--group", name, "--control", broker.control.url) == 1
    assert f"there is no group {name}" in capsys.readouterr().out
    write(broker, name, 1)
    monkeypatch.setenv("ODRADEK_CONTROL", broker.control.url.removeprefix("http://"))
    for arguments in (["topic", name], ["--topic", name], [f"--topic={name}"]):
        assert explain(*arguments) == 0
        assert "has records" in capsys.readouterr().out
    assert explain("--topic", name, "--control", "http://127.0.0.1:1") == 2
    assert "does not answer" in capsys.readouterr().err
    assert explain() == 2


FAILING = """
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

def test_before(odradek_broker):
    producer = Producer({"bootstrap.servers": odradek_broker.bootstrap_servers, "client.id": "earlier"})
    producer.produce("before", b"v")
    producer.flush(30)

def test_fails(odradek_bootstrap, odradek_broker):
    producer = Producer({"bootstrap.servers": odradek_bootstrap, "client.id": "mine"})
    producer.produce("orders", b"v")
    producer.flush(30)
    assert odradek_broker.group("g").reset_offsets("earliest", topic="orders")
    assert "what the broker saw" == ""

def test_passes(odradek_broker):
    pass

def test_without_a_broker():
    assert False
"""


@pytest.mark.usefixtures("own_cluster")
def test_a_failing_test_s_report_has_a_section_with_what_the_broker_saw(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    output = done.stdout
    assert "2 failed, 2 passed" in output, output + done.stderr
    assert output.count("- odradek -") == 1
    section = output[output.index("- odradek -") :]
    assert "orders: 0: 0..1" in section
    assert "before: 0: 0..1" in section
    assert "g: Empty, lag 1 (orders-0: 1 from 0)" in section
    assert "open transactions: none" in section
    assert "mine Produce v" in section
    assert "earlier Produce" not in section
