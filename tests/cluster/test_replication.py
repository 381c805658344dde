"""Replication over real processes: brokers of ours alone, and beside brokers of Apache Kafka, under all that happens.

A short form of the mixed cluster; `make torture` plays every mix for a long time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.client import until
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.load import Load, check_replicas, complaints
from tests.cluster.mixed_cluster import Ours, bootstrap, mixed, until_in_sync
from tests.cluster.reader import Reader
from tests.cluster.torture import BROKERS, CONTROLLERS, EVENTS, Torture
from tests.cluster.transactional_load import TransactionalLoad, check_transactions

PLAIN, TRANSACTIONAL = "plain", "transactional"
PARTITIONS = 3
REPLICAS = 3
SHORT = ("kill", "cut", "elect")
LONG_MINUTES = float(os.environ.get("TORTURE_MINUTES", "15"))
"""Of each mix."""

SEED = int(os.environ.get("TORTURE_SEED", "1"))
TOPIC_SETTINGS = {"min.insync.replicas": "2", "segment.bytes": "1048576"}


def events_of(torture: Torture, is_long: bool) -> Iterator[str]:
    if not is_long:
        yield from SHORT
        return
    end = time.monotonic() + 60 * LONG_MINUTES
    while time.monotonic() < end:
        yield from torture.rng.sample(EVENTS, len(EVENTS))


@pytest.mark.parametrize(("ours", "theirs"), [(2, 1), (3, 0), (1, 2)])
@pytest.mark.timeout(900 + 120 * LONG_MINUTES)
def test_replicas_stay_equal_and_lose_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, ours: int, theirs: int
) -> None:
    is_long = request.config.getoption("--torture")
    if not is_long and (ours, theirs) != (2, 1):
        pytest.skip("only with --torture")
    with ExitStack() as stack:
        controllers = stack.enter_context(KafkaControllers(tmp_path, 3 if is_long else 1, settings=CONTROLLERS))
        brokers = stack.enter_context(mixed(controllers, tmp_path, ours, theirs, BROKERS))
        servers = bootstrap(brokers)
        admin = AdminClient({"bootstrap.servers": servers})
        for topic in (PLAIN, TRANSACTIONAL):
            admin.create_topics([NewTopic(topic, PARTITIONS, REPLICAS, config=TOPIC_SETTINGS)])[topic].result(30)
        until_in_sync(admin, REPLICAS)
        torture = Torture(
            SEED, brokers, controllers, (PLAIN, TRANSACTIONAL), PARTITIONS, lambda: until_in_sync(admin, REPLICAS)
        )
        reader = stack.enter_context(Reader(servers, PLAIN, PARTITIONS))
        loads = [Load(servers, PLAIN, PARTITIONS, f"load{n}") for n in range(2)]
        transactions = [TransactionalLoad(servers, TRANSACTIONAL, PARTITIONS, f"transactions{n}") for n in range(2)]
        with ExitStack() as loading:
            for load in loads:
                loading.enter_context(load)
            for one in transactions:
                loading.enter_context(one)
            try:
                for event in events_of(torture, is_long):
                    torture.happen(event)
            finally:
                print("\n".join(torture.history), *(one.failures for one in transactions), sep="\n")  # noqa: T201
        assert not any(load.failed for load in loads), loads[0].failed[:3] + loads[1].failed[:3]
        until_in_sync(admin, REPLICAS)
        until(lambda: no_transaction_is_open(servers), "all transactions have ended", seconds=120)
        time.sleep(1)
        assert not reader.errors, reader.errors[:3]
        for broker in brokers.values():
            broker.end()
        folders = [broker.folder for broker in brokers.values()]
        acknowledged = sum(len(load.acknowledged) for load in loads)
        assert check_replicas(folders, PLAIN, PARTITIONS, [*loads, reader]) >= acknowledged > 0
        assert len(reader.seen) > 0
        assert check_transactions(folders, TRANSACTIONAL, PARTITIONS, transactions) > 0
        for broker in brokers.values():
            if isinstance(broker, Ours):
                assert complaints(broker.folder) == []


def no_transaction_is_open(servers: str) -> bool:
    """Whether a producer that reads all, and one that reads only what is committed, come to the same end."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "nobody", "isolation.level": "read_committed"})
    plain = Consumer({"bootstrap.servers": servers, "group.id": "nobody", "isolation.level": "read_uncommitted"})
    try:
        places = [TopicPartition(TRANSACTIONAL, index) for index in range(PARTITIONS)]
        ends = [[one.get_watermark_offsets(place, 30)[1] for place in places] for one in (consumer, plain)]
    finally:
        consumer.close()
        plain.close()
    return ends[0] == ends[1]
