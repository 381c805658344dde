"""The hosted partitions keep up with the image, whatever is changed together, fails, or is tried again meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kio.schema.errors import ErrorCode

from broker.membership.metadata_cache import MetadataCache
from broker.membership.publisher import Follower, MetadataPublisher
from broker.replication.directory_assignments import FIRST_METADATA_VERSION, DirectoryAssignments
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from controller.replica_rules import UNASSIGNED
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.settings import METADATA_VERSION
from metadata.topics import TopicImage
from protocol import uuids
from protocol.durations import ZERO
from protocol.metadata.topics import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager
from storage.folders.strays import FolderState
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from tests.doubles.clock import ManualClock, settle
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.doubles.workers import LoopWorkers
from tests.unit.storage.support import append
from timing.wheel import TimingWheel

FOLDERS = ["/one", "/two"]
TOPICS = ("a", "b", "c")
MOST_BYTES = "max.message.bytes"
DEFAULT_BYTES = 1_048_588
T = TypeVar("T")


class TurningWorkers(LoopWorkers):
    """What is called is done some turns of the loop later, as chance has it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    async def call(self, work: Callable[[], T]) -> T:
        for _ in range(self._rng.randrange(6)):
            await asyncio.sleep(0)
        return work()


def log_config(_topic: str, configs: Mapping[str, str]) -> LogConfig:
    return LogConfig(max_message_bytes=int(configs.get(MOST_BYTES, DEFAULT_BYTES)), file_delete_delay_ms=1000)


class Model:
    """One node's partitions over two folders. `written`: by topic id and partition, the number of records."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.fs = FlakyFileSystem(self.clock.wall_ms)
        self.cache = MetadataCache()
        self.written: dict[tuple[UUID, int], int] = {}
        self.deleted: set[UUID | None] = set()
        self.ids = iter(range(1, 10_000))
        self.open()

    def open(self) -> None:
        workers = TurningWorkers(self.rng)
        services = LogServices(self.fs, self.clock, workers, self.rng, Shortages(self.clock.monotonic_ms))
        dirs = LogDirs.open(self.fs, FOLDERS, node_id=1, new_id=self.new_id, now_ms=0)
        self.logs = LogManager.open(
            services,
            dirs,
            lambda topic: log_config(topic, self.cache.topic_configs(topic)),
            new_id=self.new_id,
            topic_id_of=self.id_of,
            folder_state_of=self.folder_state,
        )
        self.partitions = ReplicaManager(
            1, self.cache, self.logs, log_config, TimingWheel(self.clock), self.new_id, lambda _: None
        )
        self.publisher = MetadataPublisher(self.cache)
        self.publisher.start([Follower("replicas", self.partitions.follow, self.partitions.prepare), self.slow()])

    def new_id(self) -> UUID:
        return UUID(int=next(self.ids))

    def slow(self) -> Follower:
        async def prepare(_delta: MetadataDelta, _image: MetadataImage) -> None:
            await TurningWorkers(self.rng).call(lambda: None)

        return Follower("slow", lambda *_: None, prepare)

    def id_of(self, name: str) -> UUID | None:
        topic = self.cache.topic(name)
        return None if topic is None else topic.id

    def folder_state(self, key: TopicPartition, topic_id: UUID | None, _: int) -> FolderState:
        topic = None if topic_id in self.deleted else self.cache.topic(key.topic)
        hosted = topic is not None and topic_id in (topic.id, None) and key.partition in topic.partitions
        return FolderState.HOSTED if hosted else FolderState.DELETED

    # -- changes

    def records(self, topic: TopicImage | None, name: str) -> list[Any]:
        """Records of some change of the topic."""
        if topic is None:
            topic_id = self.new_id()
            limit = [config(name, str(self.rng.randint(1000, 2000)))] if self.rng.random() < 0.5 else []
            return [
                TopicRecord(name=name, topic_id=topic_id),
                *limit,
                *(partition(topic_id, index) for index in range(self.rng.randint(1, 4))),
            ]
        match self.rng.randrange(4):
            case 0:
                count = topic.partition_count
                return [partition(topic.id, index) for index in range(count, count + self.rng.randint(1, 2))]
            case 1:
                return [config(name, str(self.rng.randint(1000, 2000)))]
            case 2:
                index = self.rng.randrange(topic.partition_count)
                return [PartitionChangeRecord(topic_id=topic.id, partition_id=index, leader=1)]
        return [RemoveTopicRecord(topic_id=topic.id)]

    async def change(self) -> None:
        """Publish one to four changes together."""
        delta, image = MetadataDelta(self.cache.image), self.cache.image
        for _ in range(self.rng.randint(1, 4)):
            name = self.rng.choice(TOPICS)
            records = self.records(image.topics.get(name), name)
            delta.replay_all(records)
            self.deleted |= delta.topics.deleted.keys()
            step = MetadataDelta(image)
            step.replay_all(records)
            image = step.apply(image.offset + len(records), 1, 0)
        await self.publisher.publish(delta, delta.apply(image.offset, 1, 0))

    def write(self) -> None:
        for hosted in self.partitions:
            if not hosted.log.is_offline and self.rng.random() < 0.5:
                with self.fs.calm():
                    append(hosted.log, epoch=hosted.leader_epoch)
                key = hosted.topic_id, hosted.index
                self.written[key] = self.written.get(key, 0) + 1

    # -- what holds

    def expected(self) -> Iterator[tuple[TopicImage, int]]:
        for topic in self.cache.image.topics:
            for index in range(topic.partition_count):
                yield topic, index

    def check(self) -> None:
        assert len(self.partitions) == len(list(self.expected()))
        for topic, index in self.expected():
            hosted = self.partitions.get(topic.name, index)
            assert hosted is not None
            assert (hosted.topic_id, hosted.leader_epoch) == (topic.id, topic.partitions[index].leader_epoch)
            assert not hosted.is_deleted
            if not hosted.log.is_offline:
                self.check_online(hosted)

    def check_online(self, hosted: Partition) -> None:
        assert self.logs.get(hosted.topic, hosted.index) is hosted.log
        assert hosted.log.topic_id == hosted.topic_id
        assert hosted.log.leader_epochs.latest == hosted.leader_epoch
        assert hosted.log.config == log_config(hosted.topic, self.cache.topic_configs(hosted.topic))
        assert hosted.log_end_offset == self.written.get((hosted.topic_id, hosted.index), 0)

    def check_folders(self) -> None:
        """After a start there is a folder for each log and no other."""
        found = [f"{root}/{name}" for root in FOLDERS for name in self.fs.listdir(root)]
        assert sorted(path for path in found if self.fs.is_dir(path)) == sorted(
            hosted.log.folder for hosted in self.partitions
        )

    # -- a life

    async def live(self, steps: int) -> None:
        for _ in range(steps):
            if self.rng.random() < 0.5:
                trouble = self.rng.choice([Trouble.NONE, Trouble.ROOM, Trouble.DESCRIPTORS])
                self.fs.get_into(trouble, self.rng.choice([0.02, 0.2, 1.0]), self.rng.randrange(1000))
            doing: list[asyncio.Future[Any]] = [asyncio.ensure_future(self.change())]
            if self.rng.random() < 0.6:
                doing.insert(self.rng.randrange(2), asyncio.ensure_future(self.partitions.retry()))
            await asyncio.gather(*doing)
            self.check()
            self.write()
        self.fs.get_into(Trouble.NONE, 0, 0)
        await self.partitions.retry()
        self.check()
        assert not any(hosted.log.is_offline for hosted in self.partitions)
        await self.restart()

    async def restart(self) -> None:
        self.logs.close()
        self.clock.drop_all()
        self.open()
        await self.partitions.start()
        self.check()
        self.check_folders()
        assert not any(hosted.log.is_offline for hosted in self.partitions)
        self.logs.close()


def partition(topic_id: UUID, index: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(UUID(int=1),),
    )


def config(topic: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=MOST_BYTES, value=value)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
async def test_the_hosted_partitions_are_those_of_the_image(seed: int) -> None:
    await Model(seed).live(12)


async def test_a_topic_deleted_while_its_log_is_made_late_leaves_nothing() -> None:
    model = Model(1)
    model.fs.get_into(Trouble.ROOM, 1.0, 1)
    delta = MetadataDelta(model.cache.image)
    delta.replay_all([TopicRecord(name="a", topic_id=UUID(int=7)), partition(UUID(int=7), 0)])
    await model.publisher.publish(delta, delta.apply(2, 1, 0))
    model.fs.get_into(Trouble.NONE, 0, 0)
    gone = MetadataDelta(model.cache.image)
    gone.replay(RemoveTopicRecord(topic_id=UUID(int=7)))
    gate = asyncio.Event()
    made: list[bool] = []

    async def call(work: Callable[[], T]) -> T:
        result = work()
        made.append(model.fs.exists("/one/a-0") or model.fs.exists("/two/a-0"))
        await gate.wait()
        return result

    model.logs.services.workers.call = call
    retrying = asyncio.ensure_future(model.partitions.retry())
    await settle()
    assert made == [True]
    model.partitions.follow(gone, gone.apply(3, 1, 0))
    gate.set()
    assert await retrying == set()
    assert len(model.partitions) == 0
    assert model.logs.logs == {}
    assert [path for path in FOLDERS for name in model.fs.listdir(path) if name.startswith("a-")] == []


async def test_logs_are_made_in_the_folders_that_the_controller_has_assigned_and_only_others_are_reported() -> None:
    model = Model(1)
    ids = [uuids.from_text(log_dir.directory_id or "") for log_dir in model.logs.usable_dirs]
    assigned = [ids[1], ids[1], ids[1], ids[0], UNASSIGNED]
    delta = MetadataDelta(model.cache.image)
    records: list[Any] = [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=FIRST_METADATA_VERSION),
        TopicRecord(name="a", topic_id=UUID(int=7)),
    ]
    for index, directory in enumerate(assigned):
        records.append(partition(UUID(int=7), index))
        records.append(PartitionChangeRecord(topic_id=UUID(int=7), partition_id=index, directories=(directory,)))
    delta.replay_all(records)
    await model.publisher.publish(delta, delta.apply(2, 1, 0))
    folders = [model.partitions.find("a", index).log.folder.rpartition("/")[0] for index in range(len(assigned))]
    assert folders[:4] == ["/two", "/two", "/two", "/one"]
    reported: list[int] = []

    async def assign(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        reported.extend(
            one.partition_index for each in request.directories for of in each.topics for one in of.partitions
        )
        return AssignReplicasToDirsResponse(throttle_time=ZERO, error_code=ErrorCode.none, directories=())

    await DirectoryAssignments(1, lambda: 5, model.cache, model.partitions, assign).reconcile()
    assert reported == [4]
