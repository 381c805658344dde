"""Transactions of stock clients: what is committed is seen by all, what is aborted only by read_uncommitted readers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import groupby

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.runtime.runtime import partition_for
from odradek import Broker
from tests.brokers import sound_broker
from tests.client import transactional
from tests.client.hanging import UNVERIFIED, hang
from tests.client.java_tools import java

OUTCOMES = ("commit", "abort", "commit", "abort", "abort", "commit")
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture
def made(bootstrap: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(transactional.SECONDS)
    return topic


@pytest.mark.parametrize("client", transactional.PLAYS)
def test_only_what_is_committed_is_seen(client: str, bootstrap: str, made: str) -> None:
    if reason := transactional.missing(client):
        pytest.skip(reason)
    transactional.PLAYS[client](bootstrap, made, f"id-{made}", OUTCOMES)
    for reader, read in transactional.READS.items():
        if transactional.missing(reader) or ("java" in (reader, client) and reader != client):
            continue
        for isolation in ("read_committed", "read_uncommitted"):
            wanted = transactional.expected(OUTCOMES, committed=isolation == "read_committed")
            assert read(bootstrap, made, isolation, len(wanted)) == wanted, (reader, isolation)


def test_a_zombie_is_fenced_whatever_its_client(bootstrap: str, made: str) -> None:
    """aiokafka speaks the oldest versions, librdkafka new ones: each fences the other."""
    transactional_id = f"id-{made}"

    async def run() -> None:
        zombie = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        await zombie.start()
        await zombie.begin_transaction()
        await zombie.send_and_wait(made, b"of a zombie", partition=0)
        newer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
        await asyncio.to_thread(newer.init_transactions, transactional.SECONDS)
        newer.begin_transaction()
        newer.produce(made, b"of the newer", partition=0)
        newer.flush(transactional.SECONDS)
        with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
            await zombie.commit_transaction()
        await zombie.client.close()
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as newest:
            with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
                await asyncio.to_thread(newer.commit_transaction, transactional.SECONDS)
            async with newest.transaction():
                await newest.send_and_wait(made, b"of the newest", partition=0)

    asyncio.run(asyncio.wait_for(run(), 2 * transactional.SECONDS))
    assert transactional.read_confluent(bootstrap, made, "read_committed", 1) == [b"of the newest"]


def tool(bootstrap: str, *arguments: str) -> str:
    run = java(TRANSACTIONS, "--bootstrap-server", bootstrap, *arguments)
    assert run.returncode == 0, (run.stdout + run.stderr).decode()
    return run.stdout.decode()


@pytest.fixture
def unverified(own_cluster: None, java_tool: None) -> Iterator[str]:
    """A broker that lets in what no coordinator knows of, as clients before KIP-890 could bring about."""
    with sound_broker(UNVERIFIED) as broker:
        yield broker.bootstrap_servers


def end_of_stable(bootstrap: str, topic: str) -> int:
    """Where a read_committed reader gets to: the record and its marker, if that is there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"})
    try:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, -1)], transactional.SECONDS)
        return int(found.offset)
    finally:
        consumer.close()


def test_kafka_transactions_lists_finds_and_aborts(unverified: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": unverified})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in (topic, f"{topic}-2")]).values():
        made.result(transactional.SECONDS)
    producer = Producer({"bootstrap.servers": unverified, "transactional.id": "open"})
    producer.init_transactions(transactional.SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(transactional.SECONDS)
    hang(unverified, f"{topic}-2")
    listed = {line.split()[0]: line.split()[-1] for line in tool(unverified, "list").splitlines()[1:]}
    assert listed == {"open": "Ongoing", "hangs": "Empty"}
    assert f"{topic}-0" in tool(unverified, "describe", "--transactional-id", "open")
    found = tool(unverified, "find-hanging", "--broker-id", "1").splitlines()
    assert [line.split()[:2] for line in found[1:]] == [[f"{topic}-2", "0"]]
    tool(unverified, "abort", "--topic", f"{topic}-2", "--partition", "0", "--start-offset", "0")
    assert end_of_stable(unverified, f"{topic}-2") == 2
    tool(unverified, "forceTerminateTransaction", "--transactionalId", "open")
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        producer.commit_transaction(transactional.SECONDS)


def test_kafkas_own_tool_decodes_the_transaction_log(own_cluster: None, java_tool: None, topic: str) -> None:
    with Broker(profile="kafka") as broker:
        bootstrap = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(transactional.SECONDS)
        transactional.play_confluent(bootstrap, topic, "id", ("commit", "abort"))
        broker.stop()
        state = broker.data_dir / f"__transaction_state-{partition_for('id', 50)}" / ("0" * 20 + ".log")
        printed = dumped("--transaction-log-decoder", "--files", str(state))
        states = re.findall(r'"transactionalId":"id".*?"transactionStatus":"(\w+)"', printed)
        assert [one for one, _ in groupby(states)] == [
            *("Empty", "Ongoing", "PrepareCommit", "CompleteCommit"),
            *("Ongoing", "PrepareAbort", "CompleteAbort"),
        ]
        (index,) = (broker.data_dir / f"{topic}-0").glob("*.txnindex")
        assert "firstOffset: 4 lastOffset: 7 lastStableOffset: 8" in dumped("--files", str(index))
        (snapshot,) = (broker.data_dir / f"{topic}-0").glob("*.snapshot")
        assert "currentTxnFirstOffset: OptionalLong.empty" in dumped("--files", str(snapshot))
        records = dumped("--print-data-log", "--files", str(broker.data_dir / f"{topic}-0" / state.name))
        assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: 0", records) == ["COMMIT", "ABORT"]


def dumped(*arguments: str) -> str:
    run = java("org.apache.kafka.tools.DumpLogSegments", *arguments)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode()
