"""A node over three folders whose disk fails at times: topics, records, DeleteRecords, retention, moves, every end."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState

from broker.background import Stopped
from broker.network.server import ListenError
from broker.replication.partition import Partition
from protocol.errors import KafkaStorage
from storage.folders.log_dirs import LogDirError
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.doubles.workers import LaneWorkers
from tests.unit.broker.known import Known, Log
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import answer, batch, produce

FOLDERS = ("/one", "/two", "/three")
CONFIG = {
    "log.dirs": ",".join(FOLDERS),
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
}
TOPIC_CONFIG = {
    "internal.segment.bytes": "300",
    "retention.bytes": "2000",
    "file.delete.delay.ms": "500",
    "message.timestamp.after.max.ms": str(2**62),
}
TOPICS = ("plain", "flushed")
"""Each record of the second one is flushed before it is acknowledged."""
PARTITIONS = 2
REFUSED = "kafka_storage_error"
"""The metadata log took nothing: there is no room for it, or it cannot be written any more."""
SECOND = timedelta(seconds=1)
LANES = ("flush", "files", "moves", "checkpoint", "metadata")
T = TypeVar("T")


class NodeMachine(RuleBasedStateMachine):
    """`trap`: how many operations on files from now the process ends; `trapped`: what was on disk, and known, then."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.fs = FlakyFileSystem(self.clock.wall_ms)
        self.rng = random.Random(0)
        self.known = Known()
        self.values = 0
        self.starts = 0
        self.trap = 0
        self.trapped: tuple[FlakyFileSystem, Known] | None = None
        self.ending: tuple[Unsynced | None, int] = None, 0
        self.start()

    def teardown(self) -> None:
        self.leave()
        self.loop.close()

    # -- the node

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def until(self, done: Callable[[], bool], ms: float) -> bool:
        """Have the loop and the workers work until then, and time pass only when they have nothing to do."""
        end = self.clock.monotonic_ms() + ms
        while True:
            await settle()
            if done():
                return True
            if self.workers.run_any(self.rng):
                continue
            deadline = self.clock.next_deadline_ms()
            left = end - self.clock.monotonic_ms()
            if deadline is None or deadline > end:
                self.clock.advance(max(left, 0))
                return False
            self.clock.advance(max(deadline - self.clock.monotonic_ms(), 0))

    async def ask(self, api: str, version: int, **fields: Any) -> Any:
        """The answer; None if there is none."""
        client = self.rig.connect()
        client.send(api, version, **fields)
        replies: list[bytes] = []

        def answered() -> bool:
            replies.extend(client.replies())
            return bool(replies) or self.trapped is not None

        await self.until(answered, 2000)
        if self.trapped is not None:
            return None
        return answer(replies[0], api, version) if replies else None

    def start(self) -> None:
        """Over what the disk holds, which works."""
        self.fs.trouble = Trouble.NONE
        assert self.try_to_start()
        for path in FOLDERS:
            names = [name for name in self.fs.listdir(path) if "-" in name and self.fs.is_dir(f"{path}/{name}")]
            assert all(name.rpartition("-")[2].isdecimal() for name in names), names
        hosted = [name for path in FOLDERS for name in self.fs.listdir(path) if name.rpartition("-")[2].isdecimal()]
        assert len(set(hosted)) == len(hosted)
        assert not any(one.log.is_offline for one in self.rig.node.replicas)
        for name in self.known.uncertain:
            self.learn(name)
        self.known.uncertain.clear()
        self.check()

    def learn(self, name: str) -> None:
        """What has become of a topic that was asked for, or was to go."""
        topic = self.rig.node.cluster.cache.topic(name)
        for index in range(PARTITIONS):
            log = self.known.logs.pop((name, index), None)
            if topic is not None:
                self.known.logs[name, index] = log if log is not None and log.topic_id == topic.id else Log(topic.id)

    def try_to_start(self) -> bool:
        self.starts += 1
        self.workers = LaneWorkers()
        self.rig = Rig(fs=self.fs, workers=self.workers, clock=self.clock, seed=self.starts, config=CONFIG)
        starting = self.loop.create_task(self.rig.start())
        try:
            self.run(self.until(lambda: starting.done() or self.trapped is not None, 1000))
            if self.trapped is not None:
                return False
            starting.result()
        except (LogDirError, ListenError, KafkaStorage, OSError) as error:
            assert self.fs.trouble is not Trouble.NONE, repr(error)
            return False
        return True

    def leave(self) -> None:
        """Nobody hears of the process any more."""
        self.fs = self.fs.copy()
        self.fs.forget_failed_syncs()
        self.fs.before = None
        self.clock.drop_all()
        while tasks := asyncio.all_tasks(self.loop):  # some have more to wait for when they are cancelled
            for task in tasks:
                task.cancel()
            self.run(settle())
        self.clock.drop_all()

    # -- what clients do

    @rule(topic=st.sampled_from(TOPICS))
    def create(self, topic: str) -> None:
        configs = {**TOPIC_CONFIG, "flush.messages": "1" if topic == "flushed" else "1000"}
        wanted = CreatableTopic(
            name=topic,
            num_partitions=PARTITIONS,
            replication_factor=1,
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
        )
        if topic in self.known.uncertain:
            return
        existed = self.rig.node.cluster.cache.topic(topic)
        self.known.uncertain.add(topic)
        done = self.run(self.ask("create_topics", 7, topics=(wanted,), timeout=SECOND, validate_only=False))
        if done is not None:
            name = done.topics[0].error_code.name
            if name != REFUSED:
                assert (existed is not None) == (name == "topic_already_exists")
            assert (self.rig.node.cluster.cache.topic(topic) is not None) == (existed is not None or name == "none")
            if name == "none":
                for index in range(PARTITIONS):
                    self.known.logs[topic, index] = Log(done.topics[0].topic_id)
            if name in ("none", "topic_already_exists") or not self.fs.failed:
                self.known.uncertain.discard(topic)

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        if topic in self.known.uncertain:
            return
        existed = self.rig.node.cluster.cache.topic(topic)
        self.known.uncertain.add(topic)
        named = DeleteTopicState(name=topic, topic_id=None)
        done = self.run(self.ask("delete_topics", 6, topics=(named,), timeout=SECOND))
        if done is not None:
            name = done.responses[0].error_code.name
            if name != REFUSED:
                assert (existed is None) == (name == "unknown_topic_or_partition")
            if name in ("none", "unknown_topic_or_partition"):
                self.known.uncertain.discard(topic)
                for index in range(PARTITIONS):
                    self.known.logs.pop((topic, index), None)

    @rule(topic=st.sampled_from(TOPICS), index=st.integers(0, PARTITIONS - 1), count=st.integers(1, 8))
    def append(self, topic: str, index: int, count: int) -> None:
        for _ in range(count):
            log = self.known.logs.get((topic, index))
            if log is None or self.trapped is not None or topic in self.known.uncertain:
                return
            self.values += 1
            value = b"%d" % self.values
            log.sent.add(value)
            done = self.run(self.ask("produce", 9, **produce(topic, {index: batch(value, b"x" * 40)})))
            if done is not None:
                told = done.responses[0].partition_responses[0]
                if told.error_code.name == "none":
                    log.owed[told.base_offset] = value
                    if topic == "flushed":
                        log.flushed = max(log.flushed, told.base_offset + 1)
                else:
                    assert self.fs.failed, told

    @rule(topic=st.sampled_from(TOPICS), index=st.integers(0, PARTITIONS - 1), share=st.floats(0, 1))
    def delete_records(self, topic: str, index: int, share: float) -> None:
        partition = self.rig.node.replicas.get(topic, index)
        log = self.known.logs.get((topic, index))
        if partition is None or log is None or topic in self.known.uncertain:
            return
        start, end = partition.log_start_offset, partition.high_watermark
        offset = start + round((end - start) * share)
        wanted = DeleteRecordsTopic(
            name=topic, partitions=(DeleteRecordsPartition(partition_index=index, offset=offset),)
        )
        done = self.run(self.ask("delete_records", 2, topics=(wanted,), timeout=SECOND))
        if done is not None:
            told = done.topics[0].partitions[0]
            if told.error_code.name == "none":
                assert told.low_watermark >= offset
                log.start = max(log.start, told.low_watermark)
            else:
                assert self.fs.failed, told

    @rule(topic=st.sampled_from(TOPICS), index=st.integers(0, PARTITIONS - 1), path=st.sampled_from(FOLDERS))
    def move(self, topic: str, index: int, path: str) -> None:
        wanted = AlterReplicaLogDir(path=path, topics=(AlterReplicaLogDirTopic(name=topic, partitions=(index,)),))
        self.run(self.ask("alter_replica_log_dirs", 2, dirs=(wanted,)))

    # -- what passes

    @rule(ms=st.sampled_from([1, 60, 600, 1500, 4000]))
    def wait(self, ms: int) -> None:
        self.run(self.until(lambda: self.trapped is not None, ms))

    @rule(count=st.integers(1, 30))
    def work(self, count: int) -> None:
        for _ in range(count):
            self.workers.run_any(self.rng)
            self.run(settle())

    @rule(lanes=st.sets(st.sampled_from(LANES), max_size=2))
    def hold(self, lanes: set[str]) -> None:
        self.workers.held = tuple(lanes)

    @rule(seed=st.integers(0, 1000))
    def shuffle(self, seed: int) -> None:
        self.rng = random.Random(seed)

    @rule(
        trouble=st.sampled_from(Trouble),
        chance=st.sampled_from([0.03, 0.2, 0.5, 1.0]),
        seed=st.integers(0, 1000),
        where=st.sampled_from(("/one/t", "", *FOLDERS)),
    )
    def disk(self, trouble: Trouble, chance: float, seed: int, where: str) -> None:
        self.fs.get_into(trouble, chance, seed, where)

    # -- how it ends

    @rule(then=st.sampled_from([None, *Unsynced]), seed=st.integers(0, 1000))
    def stop(self, then: Unsynced | None, seed: int) -> None:
        """In good order, if the disk allows; and the power may fail after it."""
        self.fs.trouble = self.fs.trouble if seed % 2 else Trouble.NONE
        self.workers.held = ()
        stopping = self.loop.create_task(self.rig.node.stop())
        if not self.run(self.until(lambda: stopping.done() or self.trapped is not None, 100_000)):
            assert self.fs.failed
        if self.trapped is None and stopping.done() and stopping.result() is Stopped.CLEAN:
            for log in self.known.logs.values():
                log.flushed = max(log.flushed, log.owed_end)
        self.end(then, seed)

    @rule(unsynced=st.sampled_from([None, None, *Unsynced]), seed=st.integers(0, 1000))
    def die(self, unsynced: Unsynced | None, seed: int) -> None:
        """kill -9, or the power fails."""
        self.end(unsynced, seed)

    @rule(operations=st.integers(1, 80), unsynced=st.sampled_from([None, None, *Unsynced]), seed=st.integers(0, 1000))
    def die_later(self, operations: int, unsynced: Unsynced | None, seed: int) -> None:
        """In the middle of whatever comes."""
        self.ending = unsynced, seed
        self.trap = operations
        self.fs.before = self.spring

    def spring(self) -> None:
        self.trap -= 1
        if self.trap == 0:
            self.fs.before = None
            self.note_flushed()
            self.trapped = self.fs.copy(), copy.deepcopy(self.known)

    @rule(
        trouble=st.sampled_from(Trouble),
        chance=st.sampled_from([0.03, 0.2, 0.5, 1.0]),
        seed=st.integers(0, 1000),
        where=st.sampled_from(("", *FOLDERS)),
        unsynced=st.sampled_from([None, *Unsynced]),
        goes_on=st.booleans(),
    )
    def start_in_trouble(
        self, trouble: Trouble, chance: float, seed: int, where: str, unsynced: Unsynced | None, goes_on: bool
    ) -> None:
        self.disappear(unsynced, seed)
        self.fs.get_into(trouble, chance, seed, where)
        if self.try_to_start() and goes_on:
            return
        self.end(unsynced, seed)

    def end(self, unsynced: Unsynced | None, seed: int) -> None:
        """And start again."""
        self.disappear(unsynced, seed)
        self.start()

    def disappear(self, unsynced: Unsynced | None, seed: int) -> None:
        self.fs.before = None
        if self.trapped is None:
            self.note_flushed()
        else:
            self.fs, self.known = self.trapped
            self.trapped = None
            unsynced, seed = self.ending
        self.leave()
        if unsynced is not None:
            self.fs.crash(unsynced, seed)
            for log in self.known.logs.values():
                log.lose_power()
        self.fs.failed = 0

    # -- what holds

    def partitions(self) -> Iterator[tuple[Log, Partition]]:
        for (topic, index), log in self.known.logs.items():
            partition = self.rig.node.replicas.get(topic, index) if hasattr(self.rig, "node") else None
            if partition is not None and topic not in self.known.uncertain and not partition.log.is_offline:
                yield log, partition

    def note_flushed(self) -> None:
        for log, partition in self.partitions():
            log.flushed = max(log.flushed, partition.log.flushed.offset)

    @invariant()
    def what_was_promised_holds(self) -> None:
        if self.trapped is not None:
            self.end(None, 0)
        elif self.rig.node.state.unusable.is_set():
            self.stop(None, 0)
        else:
            self.check()

    def check(self) -> None:
        with self.fs.calm():
            self.workers.at_once = True
            for topic in TOPICS:
                self.check_topic(topic)
            for log, partition in self.partitions():
                log.check(partition)
            self.workers.at_once = False

    def check_topic(self, name: str) -> None:
        topic = self.rig.node.cluster.cache.topic(name)
        keys = [(name, index) for index in range(PARTITIONS)]
        if name in self.known.uncertain:
            return
        assert [key in self.known.logs for key in keys] == [topic is not None] * PARTITIONS
        for key in keys:
            if topic is not None:
                partition = self.rig.node.replicas.get(*key)
                assert partition is not None
                assert self.known.logs[key].topic_id == topic.id == partition.topic_id


NodeMachine.TestCase.settings = settings(
    max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestNode = pytest.mark.long(NodeMachine.TestCase)
