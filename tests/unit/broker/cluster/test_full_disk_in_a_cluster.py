"""A broker of a cluster whose log folder has no room (ENOSPC): others lead what they have in sync."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from broker.replication.folders import HOLD_MS, FullFolders
from controller.replica_rules import LOST
from protocol import uuids
from protocol.durations import MILLISECOND
from storage.shortages import QUIET_MS, Shortages
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem
from tests.unit.broker.cluster_rig import ClusterRig
from tests.unit.broker.wire import batch, produce

BACK_MS = QUIET_MS + HOLD_MS + 5_000
"""Within this time replicas have returned to a folder that has room again."""


def fill(fs: MemoryFileSystem, folder: str = "/data", error: int = errno.ENOSPC) -> None:
    """Let no write below the folder find room, and no new file."""

    def hook(operation: str, path: str) -> None:
        makes = operation in ("open", "mkdir") and not fs.exists(path)
        if path.startswith(f"{folder}/") and (operation == "pwrite" or makes):
            raise OSError(error, "no space left", path)

    fs.hook = hook


def make_room(fs: MemoryFileSystem) -> None:
    fs.hook = None


class Cluster(ClusterRig):
    """Node 1 is the controller alone; 2 and 3 are brokers."""

    def __init__(self, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        super().__init__(brokers=2, config=settings, controller_roles="controller")

    async def __aenter__(self) -> Cluster:
        await super().__aenter__()
        return self

    async def make(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """Create a topic with these replicas of its partitions, the first ones leading."""
        assignments = tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)
        )
        wanted = CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=()
        )
        fields = {"topics": (wanted,), "timeout": 30_000 * MILLISECOND, "validate_only": False}
        answer = await self.ask(self.nodes[3].connect(), "create_topics", 7, **fields)
        assert answer.topics[0].error_code.name == "none"
        await self.clock.run(2_000)

    def state(self, topic: str, index: int = 0) -> Any:
        found = self.nodes[3].node.cluster.cache.image.topics.get(topic)
        assert found is not None
        return found.partitions[index]

    async def send(self, node_id: int, topic: str, index: int = 0) -> str:
        """Append a record, acknowledged by all replicas; the name of the error."""
        answer = await self.ask(self.nodes[node_id].connect(), "produce", 9, **produce(topic, {index: batch(b"v")}))
        name: str = answer.responses[0].partition_responses[0].error_code.name
        return name


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
async def test_partitions_of_a_full_disk_are_led_by_replicas_that_are_in_sync(error: int) -> None:
    async with Cluster() as cluster:
        await cluster.make("t", (2, 3), (2, 3), (3, 2))
        assert await cluster.send(2, "t") == "none"
        fill(cluster.nodes[2].fs, error=error)
        assert await cluster.send(2, "t") == "kafka_storage_error"
        await cluster.clock.run(1_500)
        for index in range(3):
            state = cluster.state("t", index)
            assert (state.leader, state.isr, state.directory_of(2)) == (3, (3,), LOST)
            assert await cluster.send(3, "t", index) == "none"
        assert await cluster.send(2, "t") == "not_leader_or_follower"
        assert cluster.nodes[2].node.state.problems(), "an operator is told"


async def test_replicas_of_a_full_disk_are_in_sync_again_when_there_is_room() -> None:
    async with Cluster() as cluster:
        await cluster.make("t", (2, 3), (2, 3))
        fill(cluster.nodes[2].fs)
        assert await cluster.send(2, "t") == "kafka_storage_error"
        await cluster.clock.run(60_000)
        assert [cluster.state("t", index).isr for index in (0, 1)] == [(3,), (3,)], "even without new records"
        assert await cluster.send(3, "t") == "none"
        make_room(cluster.nodes[2].fs)
        await cluster.clock.run(BACK_MS)
        for index in (0, 1):
            state = cluster.state("t", index)
            directory = uuids.from_text(cluster.nodes[2].node.replicas.logs.usable_dirs[0].directory_id)
            assert (sorted(state.isr), state.directory_of(2)) == ([2, 3], directory)
        ends = [cluster.nodes[node_id].node.replicas.find("t", 0).log_end_offset for node_id in (2, 3)]
        assert ends == [1, 1]


def test_a_disk_that_is_full_again_when_its_replicas_return_is_left_alone_for_longer() -> None:
    clock, folder = ManualClock(), "/data"
    shortages = Shortages(clock.monotonic_ms)
    services = SimpleNamespace(shortages=shortages, clock=clock)
    logs: Any = SimpleNamespace(services=services, usable_dirs=[SimpleNamespace(path=folder)])
    full, pauses = FullFolders(logs), []
    for _ in range(5):
        shortages.note(folder, OSError(errno.ENOSPC, "no space left"))
        assert full.look()
        assert full.paths == {folder}
        (shortage,) = shortages.all()
        shortages.over(shortage)
        begun_ms = clock.monotonic_ms()
        while not full.look():
            clock.advance(500)
        assert not full.paths
        pauses.append(clock.monotonic_ms() - begun_ms)
    assert pauses == [10_000, 20_000, 40_000, 60_000, 60_000]


def test_a_shortage_elsewhere_fills_no_folder() -> None:
    shortages = Shortages(lambda: 0.0)
    services = SimpleNamespace(shortages=shortages, clock=ManualClock())
    logs: Any = SimpleNamespace(services=services, usable_dirs=[SimpleNamespace(path="/data")])
    shortages.note("the process", OSError(errno.EMFILE, "too many open files"))
    full = FullFolders(logs)
    assert not full.look()
    assert not full.paths


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
async def test_a_lack_of_file_descriptors_gives_no_leadership_away(error: int) -> None:
    """A client can bring it about with its connections, and would go on with the next leader."""
    async with Cluster() as cluster:
        await cluster.make("t", (2, 3))
        logs = cluster.nodes[2].node.replicas.logs
        logs.services.shortages.note(logs.usable_dirs[0].path, OSError(error, "too many open files"))
        await cluster.clock.run(3_000)
        state = cluster.state("t")
        assert (state.leader, sorted(state.isr), cluster.nodes[2].node.state.problems() != []) == (2, [2, 3], True)


async def test_what_no_other_broker_has_in_sync_waits_for_room_and_can_be_read() -> None:
    async with Cluster() as cluster:
        await cluster.make("alone", (2,))
        await cluster.make("behind", (2, 3))
        await cluster.kill(3)
        await cluster.start(3)
        follower = cluster.nodes[3].node.replicas
        follower.fetchers.leave(follower.find("behind", 0))
        await cluster.clock.run(60_000)
        assert cluster.state("behind").isr == (2,)
        for topic in ("alone", "behind"):
            assert await cluster.send(2, topic) == "none"
        fill(cluster.nodes[2].fs)
        for topic in ("alone", "behind"):
            assert await cluster.send(2, topic) == "kafka_storage_error"
        await cluster.clock.run(3_000)
        for topic in ("alone", "behind"):
            assert (cluster.state(topic).leader, cluster.state(topic).isr) == (2, (2,))
            assert cluster.nodes[2].node.replicas.find(topic, 0).high_watermark == 1
        follower.fetchers.follow(follower.find("behind", 0))
        await cluster.clock.run(3_000)
        assert (cluster.state("behind").leader, cluster.state("behind").isr) == (3, (3,)), "once it is in sync"
        make_room(cluster.nodes[2].fs)
        assert await cluster.send(2, "alone") == "none"


async def test_a_follower_on_a_full_disk_does_not_hold_up_its_leader() -> None:
    """It is in sync for another `replica.lag.time.max.ms` otherwise, and acks=all waits for it."""
    async with Cluster() as cluster:
        await cluster.make("t", (3, 2))
        fill(cluster.nodes[2].fs)
        begun_ms = cluster.clock.monotonic_ms()
        assert await cluster.send(3, "t") == "none"
        assert cluster.clock.monotonic_ms() - begun_ms < 2_000
        assert cluster.state("t").isr == (3,)


async def test_delete_records_does_not_wait_for_a_replica_on_a_full_disk() -> None:
    """It is not fetched, so the leader does not hear of its log start."""
    async with Cluster() as cluster:
        await cluster.make("t", (2, 3))
        assert await cluster.send(2, "t") == "none"
        fill(cluster.nodes[2].fs)
        assert await cluster.send(2, "t") == "kafka_storage_error"
        await cluster.clock.run(1_500)
        wanted = DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(partition_index=0, offset=1),))
        fields = {"topics": (wanted,), "timeout": 30_000 * MILLISECOND}
        begun_ms = cluster.clock.monotonic_ms()
        answer = await cluster.ask(cluster.nodes[3].connect(), "delete_records", 2, **fields)
        (told,) = answer.topics[0].partitions
        assert (told.error_code.name, told.low_watermark) == ("none", 1)
        assert cluster.clock.monotonic_ms() - begun_ms < 1_000
        make_room(cluster.nodes[2].fs)
        await cluster.clock.run(BACK_MS)
        assert cluster.nodes[2].node.replicas.find("t", 0).log_start_offset == 1, "it deletes them when it is back"


async def test_only_the_full_folder_of_several_is_given_up() -> None:
    async with Cluster(log_dirs="/data,/more") as cluster:
        await cluster.make("t", *[(2, 3)] * 4)
        node = cluster.nodes[2]
        of_more = {one.index for one in node.node.replicas if one.log.folder.startswith("/more/")}
        assert 0 < len(of_more) < 4
        fill(node.fs, "/more")
        assert await cluster.send(2, "t", min(of_more)) == "kafka_storage_error"
        await cluster.clock.run(1_500)
        assert {index for index in range(4) if cluster.state("t", index).leader == 3} == of_more
        assert not node.node.state.unusable.is_set()


async def test_a_partition_whose_log_finds_no_room_when_it_is_made_is_led_by_another_replica() -> None:
    async with Cluster() as cluster:
        fill(cluster.nodes[2].fs)
        await cluster.make("t", (2, 3))
        assert (cluster.state("t").leader, cluster.state("t").isr) == (3, (3,))
        assert await cluster.send(3, "t") == "none"
        make_room(cluster.nodes[2].fs)
        await cluster.clock.run(BACK_MS)
        assert sorted(cluster.state("t").isr) == [2, 3]


async def test_a_partition_whose_log_goes_offline_alone_is_led_by_another_replica() -> None:
    """Its folder has not failed, so no heartbeat tells of it: a file is damaged, say, or a flush has failed."""
    async with Cluster() as cluster:
        await cluster.make("t", (2, 3), (2, 3))
        cluster.nodes[2].node.replicas.find("t", 0).log.fail(OSError(errno.EFBIG, "file too large"))
        await cluster.clock.run(1_500)
        assert [cluster.state("t", index).leader for index in (0, 1)] == [3, 2]
        assert await cluster.send(3, "t") == "none"


async def test_a_replica_on_a_full_disk_leads_again_when_the_others_are_gone_for_good() -> None:
    """It is among the eligible leader replicas (KIP-966), and has all that was acknowledged."""
    async with Cluster(min_insync_replicas="2") as cluster:
        await cluster.make("t", (2, 3))
        assert await cluster.send(2, "t") == "none"
        fill(cluster.nodes[2].fs)
        assert await cluster.send(2, "t") == "kafka_storage_error"
        await cluster.clock.run(1_500)
        assert cluster.state("t").elr == (2,)
        await cluster.stop(3)
        await cluster.clock.run(2_000)
        image = cluster.nodes[2].node.cluster.cache.image
        topic = image.topics.get("t")
        assert topic is not None
        assert topic.partitions[0].leader == 2
        assert cluster.nodes[2].node.replicas.find("t", 0).log_end_offset == 1


async def test_a_group_whose_coordinator_has_a_full_disk_commits_at_the_next_coordinator() -> None:
    config = {"offsets_topic_replication_factor": "2", "offsets_topic_num_partitions": "1"}
    async with Cluster(**config) as cluster:
        await cluster.make("t", (3, 2))

        async def coordinator() -> int:
            while True:
                found = await cluster.ask(
                    cluster.nodes[3].connect(), "find_coordinator", 4, key_type=0, coordinator_keys=("g",)
                )
                if found.coordinators[0].error_code.name == "none":
                    return int(found.coordinators[0].node_id)
                await cluster.clock.run(200)

        async def commit(node_id: int) -> str:
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
            )
            answer = await cluster.ask(
                cluster.nodes[node_id].connect(),
                "offset_commit",
                8,
                group_id="g",
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
            )
            name: str = answer.topics[0].partitions[0].error_code.name
            return name

        first = await coordinator()
        await cluster.clock.run(2_000)
        assert await commit(first) == "none"
        fill(cluster.nodes[first].fs)
        assert await commit(first) != "none"
        await cluster.clock.run(1_500)
        second = await coordinator()
        assert second == 5 - first
        assert await commit(second) == "none"
