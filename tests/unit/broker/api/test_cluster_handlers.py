"""DescribeCluster, the quorum, elections, reassignments, producer ids, epochs and log dirs as one node answers them."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic
from kio.schema.describe_quorum.v2.request import PartitionData as QuorumPartition
from kio.schema.describe_quorum.v2.request import TopicData
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition, OffsetForLeaderTopic

from broker.membership.auto_create import wanted
from protocol.errors import FencedLeaderEpoch, KafkaStorage, UnknownTopicOrPartition
from tests.unit.broker.admin_rig import Rig

SECOND = datetime.timedelta(seconds=1)


async def opened() -> Rig:
    rig = await Rig.open()
    await rig.create(wanted("t", 2, 1))
    return rig


async def test_describe_cluster_tells_the_listener_that_was_asked() -> None:
    rig = await opened()
    answer = await rig.ask("describe_cluster", include_cluster_authorized_operations=True, include_fenced_brokers=True)
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.is_fenced) == (1, "broker.example", 9092, False)
    assert (answer.controller_id, answer.cluster_id, answer.cluster_authorized_operations) == (
        1,
        rig.node.cluster.id,
        8096,
    )


@pytest.mark.parametrize(("endpoint", "code"), [(2, "mismatched_endpoint_type"), (0, "unsupported_endpoint_type")])
async def test_describe_cluster_of_other_endpoints(endpoint: int, code: str) -> None:
    answer = await (await opened()).ask(
        "describe_cluster",
        include_cluster_authorized_operations=True,
        include_fenced_brokers=False,
        endpoint_type=endpoint,
    )
    assert (answer.error_code.name, answer.controller_id, answer.cluster_authorized_operations) == (code, -1, -(2**31))


async def elect(rig: Rig, kind: int, *partitions: tuple[str, tuple[int, ...]], **fields: Any) -> Any:
    topics = tuple(TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in partitions)
    asked: dict[str, Any] = {"topic_partitions": topics, "timeout": SECOND} | fields
    answer = await rig.ask("elect_leaders", election_type=kind, **asked)
    results = [
        (result.topic, [(one.partition_id, one.error_code.name) for one in result.partition_result])
        for result in answer.replica_election_results
    ]
    return answer.error_code.name, results


async def test_no_partition_needs_an_election() -> None:
    rig = await opened()
    unknown = "unknown_topic_or_partition"
    assert await elect(rig, 0, ("t", (0, 9, -1)), ("no", (0,))) == (
        "none",
        [("t", [(0, "election_not_needed"), (9, unknown), (-1, unknown)]), ("no", [(0, unknown)])],
    )
    assert await elect(rig, 1, topic_partitions=None) == ("none", [("t", [])])
    assert await elect(rig, 2, ("t", (0,))) == ("invalid_request", [("t", [(0, "invalid_request")])])
    assert await elect(rig, 0, ("t", (0,)), timeout=datetime.timedelta(0)) == (
        "request_timed_out",
        [("t", [(0, "request_timed_out")])],
    )


async def test_reassignments() -> None:
    rig = await opened()

    async def reassign(name: str, index: int, replicas: tuple[int, ...] | None) -> str:
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        answer = await rig.ask(
            "alter_partition_reassignments",
            topics=(ReassignableTopic(name=name, partitions=(partition,)),),
            timeout=SECOND,
        )
        code: str = answer.responses[0].partitions[0].error_code.name
        return code

    assert await reassign("t", 0, (1,)) == "none"
    assert await reassign("t", 0, None) == "no_reassignment_in_progress"
    assert await reassign("t", 0, (2,)) == "invalid_replica_assignment"
    assert await reassign("t", 0, ()) == "invalid_replica_assignment"
    assert await reassign("t", 0, (1, 1)) == "invalid_replica_assignment"
    assert await reassign("t", 2, None) == "unknown_topic_or_partition"
    assert await reassign("no", 0, (1,)) == "unknown_topic_or_partition"
    listed = await rig.ask("list_partition_reassignments", topics=None, timeout=SECOND)
    assert (listed.error_code.name, listed.topics) == ("none", ())


async def test_init_producer_id() -> None:
    rig = await opened()

    async def init(producer_id: int, epoch: int, transactional_id: str | None = None) -> tuple[str, int, int]:
        answer = await rig.ask(
            "init_producer_id",
            transactional_id=transactional_id,
            transaction_timeout=SECOND,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return answer.error_code.name, answer.producer_id, answer.producer_epoch

    assert await init(-1, -1) == ("none", 0, 0)
    assert await init(7, 3) == ("none", 1, 0)
    for producer_id, epoch, transactional_id in ((7, -1, None), (-1, 3, None), (-1, -1, "")):
        assert await init(producer_id, epoch, transactional_id) == ("invalid_request", -1, -1)


async def test_an_unknown_resource_type_cannot_be_listed() -> None:
    answer = await (await opened()).ask("list_config_resources", resource_types=(2, 99))
    assert answer.error_code is ErrorCode.unsupported_version


class FakeMoves:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, _log: object, path: str) -> None:
        if path == "/broken":
            raise KafkaStorage
        self.asked.append(path)

    def future_of(self, _log: object) -> None:
        return None


class FakePartition:
    topic, index, key = "t", 0, ("t", 0)
    log = SimpleNamespace(folder="/data/t-0", size=123)

    def check_leader_epoch(self, epoch: int) -> None:
        if epoch == 0:
            raise FencedLeaderEpoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return epoch, 55


async def with_partition() -> Rig:
    rig = await opened()

    class Partitions(dict[tuple[str, int], FakePartition]):
        moves: Any
        logs: Any

        most = 1

        def get(self, topic: str, index: int) -> FakePartition | None:  # type: ignore[override]
            return super().get((topic, index))

        def find(self, topic: str, index: int) -> FakePartition:
            if (topic, index) not in self:
                raise UnknownTopicOrPartition
            return self[topic, index]

        def __iter__(self) -> Any:
            return iter(self.values())

    rig.node.replicas = Partitions({("t", 0): FakePartition()})
    current = rig.node.local.current
    current.config = current.config.of({"node.id": "1", "log.dirs": "/data,/other,/broken"})
    rig.fs.mkdir("/other")
    rig.fs.mkdir("/broken")
    rig.node.replicas.moves = FakeMoves()
    rig.node.replicas.logs = SimpleNamespace(services=SimpleNamespace(fs=rig.fs), failed_folders=set())
    return rig


async def test_offset_for_leader_epoch() -> None:
    rig = await with_partition()

    async def ask(partition: int, current: int) -> tuple[str, int, int]:
        wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=4)
        answer = await rig.ask(
            "offset_for_leader_epoch", topics=(OffsetForLeaderTopic(topic="t", partitions=(wanted,)),)
        )
        (one,) = answer.topics[0].partitions
        return one.error_code.name, one.leader_epoch, one.end_offset

    assert await ask(0, -1) == ("none", 4, 55)
    assert await ask(0, 0) == ("fenced_leader_epoch", -1, -1)
    assert await ask(1, -1) == ("unknown_topic_or_partition", -1, -1)


async def test_describe_log_dirs() -> None:
    rig = await with_partition()

    async def ask(topics: Any) -> Any:
        answer = await rig.ask("describe_log_dirs", topics=topics)
        return [
            (one.log_dir, [(t.name, [(p.partition_index, p.partition_size) for p in t.partitions]) for t in one.topics])
            for one in answer.results
        ]

    held = [("t", [(0, 123)])]
    assert await ask(None) == [("/data", held), ("/other", []), ("/broken", [])]
    assert await ask((DescribableLogDirTopic(topic="t", partitions=(0, 7)),)) == [
        ("/data", held),
        ("/other", []),
        ("/broken", []),
    ]
    assert await ask(()) == [("/data", []), ("/other", []), ("/broken", [])]
    answer = await rig.ask("describe_log_dirs", topics=())
    assert (answer.results[0].total_bytes, answer.results[0].usable_bytes) == rig.fs.space("/data")
    rig.node.replicas.logs.failed_folders.add("/data")
    answer = await rig.ask("describe_log_dirs", topics=None)
    told = [(one.log_dir, one.error_code.name, len(one.topics)) for one in answer.results]
    assert told == [("/data", "kafka_storage_error", 0), ("/other", "none", 0), ("/broken", "none", 0)]


async def test_alter_replica_log_dirs() -> None:
    rig = await with_partition()
    preferred: list[Any] = []
    rig.node.replicas.logs.log_dir = lambda path: SimpleNamespace(path=path, failed=path == "/broken")
    rig.node.replicas.logs.placement = SimpleNamespace(
        prefer=lambda key, log_dir: preferred.append((str(key), log_dir.path))
    )

    async def ask(path: str, topic: str = "t", index: int = 0) -> str:
        wanted = AlterReplicaLogDir(path=path, topics=(AlterReplicaLogDirTopic(name=topic, partitions=(index,)),))
        answer = await rig.ask("alter_replica_log_dirs", dirs=(wanted,))
        code: str = answer.results[0].partitions[0].error_code.name
        return code

    assert await ask("/data") == "none"
    assert await ask("/nowhere") == "log_dir_not_found"
    assert await ask("/nowhere", "no") == "log_dir_not_found"
    assert await ask("/data", "no") == "unknown_topic_or_partition"
    assert await ask("/data", "t", 1) == "not_leader_or_follower"  # it exists, and is to come here
    assert await ask("/other") == "none"
    assert rig.node.replicas.moves.asked == ["/data", "/other"]
    assert await ask("/broken") == "kafka_storage_error"
    assert await ask("/broken", "no") == "kafka_storage_error"
    assert preferred == [("no-0", "/data"), ("t-1", "/data")]
    # With `-0`, a point, 32 digits and `-future` behind it a folder's name has 255 characters at most.
    assert await ask("/data", "x" * 213) == "unknown_topic_or_partition"
    assert await ask("/data", "x" * 214) == "invalid_topic_exception"


async def quorum(rig: Rig, *topics: tuple[str, tuple[int, ...]]) -> Any:
    asked = tuple(
        TopicData(
            topic_name=name, partitions=tuple(QuorumPartition(partition_index=partition) for partition in partitions)
        )
        for name, partitions in topics
    )
    return await rig.ask("describe_quorum", topics=asked)


async def test_this_node_leads_the_metadata_whose_log_grows_with_every_record() -> None:
    rig = await Rig.open()

    async def told() -> Any:
        answer = await quorum(rig, ("__cluster_metadata", (0,)))
        assert (answer.error_code.name, answer.error_message) == ("none", "")
        (node,) = answer.nodes
        (listener,) = node.listeners
        assert (node.node_id, listener.name, listener.host, listener.port) == (1, "PLAINTEXT", "broker.example", 9092)
        return answer.topics[0].partitions[0]

    before = await told()
    await rig.create(wanted("t", 1, 1))
    rig.node.local.clock.advance(5000)
    after = await told()
    for partition in (before, after):
        (voter,) = partition.current_voters
        assert (partition.leader_id, partition.leader_epoch, partition.observers) == (1, 1, ())
        assert (voter.replica_id, voter.replica_directory_id) == (1, None)
        assert voter.log_end_offset == partition.high_watermark
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp
    assert after.high_watermark == before.high_watermark + 2 == rig.node.cluster.cache.image.offset + 1
    assert after.current_voters[0].last_fetch_timestamp == before.current_voters[0].last_fetch_timestamp + 5000


@pytest.mark.parametrize(
    "topics",
    [
        (("t", (0,)),),
        (("__cluster_metadata", (1,)),),
        (("__cluster_metadata", (0, 0)),),
        (("__cluster_metadata", (0,)), ("t", (0, 1))),
        (("__cluster_metadata", ()),),
        (),
    ],
)
async def test_nothing_but_the_metadata_alone_has_a_quorum(topics: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    answer = await quorum(await opened(), *topics)
    assert (answer.error_code.name, answer.nodes) == ("none", ())
    assert [
        (one.topic_name, [(p.partition_index, p.error_code.name, p.current_voters) for p in one.partitions])
        for one in answer.topics
    ] == [(name, [(index, "unknown_topic_or_partition", ()) for index in indexes]) for name, indexes in topics]
