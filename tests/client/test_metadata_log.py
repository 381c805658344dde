"""Apache Kafka and the metadata log take turns on one folder, and Kafka's tool reads what we write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from controller.quorum.features import chosen_levels
from controller.quorum.format import Formatting, bootstrap_records, format_folders
from controller.quorum.metadata_log import MetadataLog
from controller.quorum.opening import MetadataLogConfig
from protocol import uuids
from protocol.metadata.brokers import VoterEndpoint
from protocol.metadata.topics import ConfigRecord, PartitionRecord, TopicRecord
from protocol.metadata.transactions import NoOpRecord
from storage.files import OsFileSystem
from storage.folders import meta_properties
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from storage.workers import ThreadWorkers
from tests.client import kafka_node
from tests.client.kafka_node import CLUSTER_ID, KafkaNode, dump_log_segments
from timing.clock import SystemClock

FS = OsFileSystem()
T = TypeVar("T")


@pytest.fixture(autouse=True)
def kafka() -> None:
    reason = kafka_node.missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def nodes() -> Iterator[list[KafkaNode]]:
    """Those that the test starts; killed at its end."""
    started: list[KafkaNode] = []
    yield started
    for node in started:
        node.kill()


def formatted(data: Path, *, voter: VoterEndpoint | None = None) -> None:
    records = bootstrap_records(chosen_levels(kafka_node.release(), {}, dynamic=voter is not None))
    wanted = Formatting(CLUSTER_ID, 1, (str(data),), str(data), records, voter=voter)
    format_folders(FS, lambda: 1_700_000_000_000, random.Random(1), wanted)


def directory_of(data: Path) -> UUID:
    properties = meta_properties.read(FS, str(data))
    assert properties is not None
    return uuids.from_text(properties.directory_id or "")


def with_log(data: Path, work: Callable[[MetadataLog], Awaitable[T]], config: MetadataLogConfig | None = None) -> T:
    """What `work` returns, done with the log in `data`, which is closed afterwards."""

    async def run() -> T:
        loop = asyncio.get_running_loop()
        workers, clock = ThreadWorkers(loop), SystemClock(loop)
        services = LogServices(FS, clock, workers, random.Random(0), Shortages(clock.monotonic_ms))
        opening = partial(MetadataLog.open, services, str(data), 1, directory_id=directory_of(data), config=config)
        log = await workers.call(opening)
        try:
            return await work(log)
        finally:
            await log.close()
            workers.close()

    return asyncio.run(run())


async def topics_in(log: MetadataLog) -> dict[str, UUID | None]:
    records = [record for batch in log.batches() for record in batch.records]
    return {record.name: record.topic_id for record in records if isinstance(record, TopicRecord)}


def topic(name: str, number: int, directory: UUID) -> list[Any]:
    """The records of a topic with one partition, which broker 1 leads, and one configuration."""
    topic_id = UUID(int=number)
    return [
        TopicRecord(name=name, topic_id=topic_id),
        ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value="123456789"),
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=(1,),
            isr=(1,),
            removing_replicas=(),
            adding_replicas=(),
            leader=1,
            leader_recovery_state=0,
            leader_epoch=0,
            partition_epoch=0,
            directories=(directory,),
        ),
    ]


async def begin(log: MetadataLog, *records: Any) -> None:
    """Lead, with the bootstrap records if the log is new, and append."""
    is_new = log.next_offset == 0
    await log.lead()
    if is_new:
        log.append(log.bootstrap)
    if records:
        await log.durable(log.append(records))


def produce(node: KafkaNode, topic: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    failures = []
    producer.produce(topic, b"hello", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0
    assert failures == [None]


def create(admin: AdminClient, name: str) -> None:
    try:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    except KafkaException as error:  # a broker that has just started may close its first connections
        if error.args[0].code() != KafkaError._TRANSPORT:
            raise
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def test_kafkas_tool_has_no_complaint_about_our_files(data: Path) -> None:
    formatted(data)
    config = MetadataLogConfig(segment_bytes=20_000)

    async def fill(log: MetadataLog) -> None:
        await begin(log, *topic("ours", 7, directory_of(data)))
        for number in range(600):
            records = [ConfigRecord(resource_type=2, resource_name="ours", name=str(number), value="x" * 50)]
            await log.durable(log.append([*records, NoOpRecord()]))
            if number in (100, 300):
                await log.write_snapshot(log.durable_end, log.epoch, 1_700_000_000_000, records)

    with_log(data, fill, config)
    folder = data / "__cluster_metadata-0"
    decoded = ("--cluster-metadata-decoder", "--deep-iteration", "--files")
    logs, snapshots = sorted(folder.glob("*.log")), sorted(folder.glob("*.checkpoint"))
    assert len(logs) > 2
    said = dump_log_segments(*decoded, ",".join(map(str, logs)))
    assert "isvalid: false" not in said
    assert '"type":"CONFIG_RECORD"' in said
    for snapshot in snapshots:
        said = dump_log_segments(*decoded, str(snapshot))
        assert "SnapshotHeader" in said
        assert "SnapshotFooter" in said
        assert "isvalid: false" not in said
    indexes = [str(path) for suffix in ("index", "timeindex") for path in sorted(folder.glob(f"*.{suffix}"))]
    said = dump_log_segments("--index-sanity-check", "--files", ",".join(indexes))
    assert "passed sanity check" in said
    for complaint in ("mismatch", "out of order", "rror", "xception"):
        assert complaint not in said, said


@pytest.mark.parametrize("quorum", ["static", "dynamic"])
def test_kafka_goes_on_with_our_folder_and_we_with_its(data: Path, nodes: list[KafkaNode], quorum: str) -> None:
    node = KafkaNode(data, dynamic=quorum == "dynamic")
    nodes.append(node)
    endpoint = VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=node.controller_port)
    formatted(data, voter=endpoint if node.dynamic else None)
    directory = directory_of(data)
    with_log(data, lambda log: begin(log, *topic("ours", 7, directory)))

    admin = node.start()
    assert set(admin.list_topics(timeout=30).topics) >= {"ours"}
    produce(node, "ours")
    create(admin, "kafkas")
    node.stop()

    async def look_and_add(log: MetadataLog) -> None:
        found = await topics_in(log)
        assert set(found) >= {"ours", "kafkas"}
        assert found["ours"] == UUID(int=7)
        assert log.kraft_version == node.dynamic
        await begin(log, *topic("ours again", 8, directory))

    with_log(data, look_and_add)
    admin = node.start()
    assert set(admin.list_topics(timeout=30).topics) >= {"ours", "kafkas", "ours again"}
    create(admin, "killed")
    node.kill()
    assert set(with_log(data, topics_in)) >= {"ours", "kafkas", "ours again", "killed"}


def test_kafka_begins_with_our_snapshot(data: Path, nodes: list[KafkaNode]) -> None:
    formatted(data)
    config = MetadataLogConfig(segment_bytes=4000)

    async def fill(log: MetadataLog) -> None:
        records = [*log.bootstrap, *topic("ours", 7, directory_of(data))]
        await begin(log, *topic("ours", 7, directory_of(data)))
        for _ in range(3):
            for _ in range(100):
                await log.durable(log.append([NoOpRecord()]))
            await log.write_snapshot(log.durable_end, log.epoch, 1_700_000_000_000, records)
            await log.durable(log.append([NoOpRecord()]))
        assert log.log.log_start_offset > 100

    with_log(data, fill, config)
    assert not (data / "__cluster_metadata-0" / f"{0:020d}.log").exists()
    node = KafkaNode(data)
    nodes.append(node)
    admin = node.start()
    assert "ours" in admin.list_topics(timeout=30).topics
    produce(node, "ours")
    create(admin, "kafkas")
    node.stop()
    assert set(with_log(data, topics_in)) >= {"ours", "kafkas"}


@pytest.mark.parametrize("options", [(), ("--standalone",)], ids=["static", "dynamic"])
def test_we_go_on_with_a_folder_that_kafka_formatted(
    data: Path, nodes: list[KafkaNode], options: tuple[str, ...]
) -> None:
    node = KafkaNode(data, dynamic=bool(options))
    nodes.append(node)
    node.format(*options)
    before = with_log(data, lambda log: begin(log, *log.bootstrap and topic("ours", 7, directory_of(data))))
    assert before is None
    admin = node.start()
    assert "ours" in admin.list_topics(timeout=30).topics
