"""A tiered topic of three brokers, ours and Apache Kafka's, while they are killed and the store fails.

Nothing that was acknowledged is lost, whoever leads in the end, and nothing stays in the store that nothing refers to.
A short form of the mixed cluster; `make torture` plays every mix for a long time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.client import kafka_node
from tests.cluster import tiering
from tests.cluster.client import until
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.load import Load
from tests.cluster.mixed_cluster import Ours, bootstrap, mixed, until_in_sync
from tests.cluster.reader import Reader
from tests.cluster.torture import BROKERS, CONTROLLERS, EVENTS, Torture
from tests.messages import place_of, value_of

TOPIC = "t"
PARTITIONS = 2
REPLICAS = 3
LONG_MINUTES = float(os.environ.get("TORTURE_MINUTES", "15"))
"""Of each mix."""

SEED = int(os.environ.get("TORTURE_SEED", "1"))
TOPIC_SETTINGS = {
    **tiering.TIERED,
    "internal.segment.bytes": "10000",
    "min.insync.replicas": "2",
    # Some seconds of records: a replica that begins anew where the leader's local log does is to find that start there.
    "local.retention.bytes": "150000",
}
TOPIC_SETTINGS.pop("segment.bytes")
READ_SECONDS = 120


@contextmanager
def no_store(store: Path) -> Iterator[None]:
    """Every call of the store fails meanwhile: a file is where its folder should be."""
    root, away = store / "kafka-tiered-storage", store / "away"
    root.rename(away)
    root.write_text("not a folder")
    try:
        yield
    finally:
        root.unlink()
        away.rename(root)


class TieredTorture(Torture):
    """What happens to a cluster, and to its store."""

    store: Path
    pauses: tuple[int, ...] = (2, 8)

    def _store(self) -> None:
        pause = self.rng.choice(self.pauses)
        self._note(f"the store fails for {pause} s")
        with no_store(self.store):
            time.sleep(pause)


def events_of(torture: Torture, is_long: bool) -> Iterator[str]:
    if not is_long:
        yield from ("kill", "store", "reassign")
        return
    end, events = time.monotonic() + 60 * LONG_MINUTES, (*EVENTS, "store", "store")
    while time.monotonic() < end:
        yield from torture.rng.sample(events, len(events))


def all_records(servers: str) -> dict[tuple[int, int], bytes]:
    """The value at each (partition, offset), from the first offset on."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "nobody", "auto.offset.reset": "error", "log_level": 0}
    )
    places = [TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)]
    ends = {place.partition: _end(consumer, place) for place in places}
    consumer.assign(places)
    found: dict[tuple[int, int], bytes] = {}
    deadline = time.monotonic() + READ_SECONDS
    while len(found) < sum(ends.values()):
        assert time.monotonic() < deadline, f"{len(found)} of {ends} in {READ_SECONDS} s"
        for message in consumer.consume(500, 1):
            assert message.error() is None, message.error()
            found[place_of(message)] = value_of(message)
    consumer.close()
    return found


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """The high watermark, once a leader that is new knows it."""
    deadline = time.monotonic() + READ_SECONDS
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, 30)[1])
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise
            assert error.args[0].code() == KafkaError.OFFSET_NOT_AVAILABLE, error
            time.sleep(0.1)


@pytest.mark.parametrize(("ours", "theirs"), [(2, 1), (3, 0), (1, 2)])
@pytest.mark.timeout(900 + 120 * LONG_MINUTES)
def test_a_tiered_topic_loses_nothing_while_brokers_die_and_the_store_fails(
    request: pytest.FixtureRequest, tmp_path: Path, ours: int, theirs: int
) -> None:
    is_long = request.config.getoption("--torture")
    if not is_long and (ours, theirs) != (2, 1):
        pytest.skip("only with --torture")
    if kafka_node.release_of(kafka_node.jars()) < (4, 4):
        pytest.skip(f"Kafka {kafka_node.release()} is here, which has no TxnIndexEmpty in its records")
    store = tmp_path / "store"
    settings = {**BROKERS, **tiering.settings(store), "remote.log.manager.task.interval.ms": "300"}
    of_java = tiering.java_settings(tmp_path / "classes") if theirs else {}
    controllers_of = (*CONTROLLERS, *tiering.CONTROLLERS)
    with ExitStack() as stack:
        controllers = stack.enter_context(KafkaControllers(tmp_path, 3 if is_long else 1, settings=controllers_of))
        brokers = stack.enter_context(mixed(controllers, tmp_path, ours, theirs, settings, java_settings=of_java))
        servers = bootstrap(brokers)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, REPLICAS, config=TOPIC_SETTINGS)])[TOPIC].result(30)
        until_in_sync(admin, REPLICAS, only=TOPIC)
        torture = TieredTorture(
            SEED, brokers, controllers, (TOPIC,), PARTITIONS, lambda: until_in_sync(admin, REPLICAS, only=TOPIC)
        )
        torture.store = store
        if not is_long:
            torture.pauses = (2,)
        reader = stack.enter_context(Reader(servers, TOPIC, PARTITIONS))
        loads = [Load(servers, TOPIC, PARTITIONS, f"load{n}", batch=100) for n in range(2)]
        with ExitStack() as loading:
            for load in loads:
                loading.enter_context(load)
            try:
                for event in events_of(torture, is_long):
                    torture.happen(event)
            finally:
                print("\n".join(torture.history))  # noqa: T201
        assert not any(load.failed for load in loads), loads[0].failed[:3] + loads[1].failed[:3]
        assert not reader.errors, reader.errors[:3]
        known = {**reader.seen, **loads[0].acknowledged, **loads[1].acknowledged}
        assert tiering.copied_segments(store, TOPIC) > 5
        for node_id in brokers:
            others = [one for one in brokers if one != node_id]
            for index in range(PARTITIONS):
                tiering.place(admin, brokers[node_id].address, TOPIC, [node_id, *others], index=index)
            found = all_records(servers)
            assert {place: found.get(place) for place in known} == known, f"led by {node_id}"
        admin.delete_topics([TOPIC])[TOPIC].result(60)
        until(lambda: tiering.copied_segments(store, TOPIC) == 0, "nothing of the topic is in remote storage", 180)
        for broker in brokers.values():
            if isinstance(broker, Ours):
                broker.end()
