"""What a node with several folders tells the controller of where its replicas lie (KIP-858)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kio.schema.errors import ErrorCode

from broker.peers.call import PeerUnreachableError
from broker.replication.directory_assignments import CHECKS_EACH, FIRST_METADATA_VERSION, DirectoryAssignments
from controller.replica_rules import LOST
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from metadata.settings import METADATA_VERSION
from protocol import uuids
from protocol.durations import ZERO
from protocol.metadata.topics import FeatureLevelRecord, PartitionChangeRecord
from tests.unit.controller.images import image_of, topic

TOPIC_ID = UUID(int=7)
A, B = UUID(int=101), UUID(int=102)
IMAGE = image_of(
    FeatureLevelRecord(name=METADATA_VERSION, feature_level=FIRST_METADATA_VERSION),
    *topic("t", 7, [1], [1]),
    PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, directories=(A,)),
    PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, directories=(A,)),
)


class Replicas(list[Any]):
    """Partition 0 of `t` lies in /a, partition 1 in /b."""

    logs = SimpleNamespace(
        failures=0,
        services=SimpleNamespace(shortages=SimpleNamespace(all=list)),
        usable_dirs=[
            SimpleNamespace(path=path, directory_id=uuids.to_text(directory))
            for path, directory in (("/a", A), ("/b", B))
        ],
    )

    def __init__(self) -> None:
        super().__init__(
            SimpleNamespace(topic_id=TOPIC_ID, index=index, log=SimpleNamespace(folder=folder, is_offline=False))
            for index, folder in enumerate(("/a/t-0", "/b/t-1"))
        )
        self.moves = SimpleNamespace(ended=0)

    def get(self, name: str, index: int) -> Any:
        return self[index] if name == "t" else None


class Node:
    """A node with its assignments, and a controller that answers as the test says."""

    def __init__(self, node_id: int = 1) -> None:
        cache: Any = SimpleNamespace(image=IMAGE)
        self.asked: list[dict[UUID | None, list[int]]] = []
        self.is_reachable = True
        replicas: Any = Replicas()
        self.cache, self.replicas = cache, replicas
        self.assignments = DirectoryAssignments(node_id, lambda: 5, cache, self.replicas, self._assign)

    async def _assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.asked.append(
            {
                each.id_: [one.partition_index for one in named.partitions]
                for each in request.directories
                for named in each.topics
            }
        )
        if not self.is_reachable:
            raise PeerUnreachableError("no controller")
        return AssignReplicasToDirsResponse(throttle_time=ZERO, error_code=ErrorCode.none, directories=())


async def test_what_the_image_has_otherwise_is_sent_until_it_has_it() -> None:
    node = Node()
    node.is_reachable = False
    await node.assignments.reconcile()
    node.is_reachable = True
    await node.assignments.reconcile()
    assert node.asked == [{B: [1]}, {B: [1]}]
    node.cache.image = image_of(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, directories=(B,)), image=IMAGE)
    await node.assignments.reconcile()
    assert len(node.asked) == 2


async def test_nothing_is_compared_again_before_topics_have_changed() -> None:
    node = Node()
    node.cache.image = EMPTY  # of an older metadata version: no directories
    await node.assignments.reconcile()
    node.cache.image = IMAGE
    await node.assignments.reconcile()
    assert not node.asked
    delta = MetadataDelta(EMPTY)
    delta.replay_all(topic("t", 7, [1], [1]))
    node.assignments.follow(delta, IMAGE)
    await node.assignments.reconcile()
    assert node.asked == [{B: [1]}]


async def test_only_topics_that_have_changed_are_compared_and_all_after_a_move_of_a_log() -> None:
    node = Node()
    node.cache.image = image_of(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, directories=(B,)), image=IMAGE)
    await node.assignments.reconcile()
    node.replicas[0].log.folder = "/b/t-0"
    delta = MetadataDelta(EMPTY)
    delta.replay_all(topic("u", 8, [1]))
    node.assignments.follow(delta, node.cache.image)
    await node.assignments.reconcile()
    assert node.asked == [], "another topic has changed"
    node.replicas.moves.ended += 1
    await node.assignments.reconcile()
    assert node.asked == [{B: [0]}]


async def test_logs_that_are_made_late_are_compared() -> None:
    node = Node()
    node.replicas[1].log.is_offline = True
    await node.assignments.reconcile()
    assert node.asked == []
    node.replicas[1].log.is_offline = False
    await node.assignments.reconcile()
    assert node.asked == []
    node.assignments.logs_made({"t"})
    await node.assignments.reconcile()
    assert node.asked == [{B: [1]}]


async def test_all_is_compared_once_the_metadata_have_directories() -> None:
    node = Node()
    node.cache.image = EMPTY
    await node.assignments.reconcile()
    node.cache.image = IMAGE
    delta = MetadataDelta(EMPTY)
    delta.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=FIRST_METADATA_VERSION))
    node.assignments.follow(delta, IMAGE)
    await node.assignments.reconcile()
    assert node.asked == [{B: [1]}]


def change(image: MetadataImage, **fields: Any) -> MetadataImage:
    """The image after a change of partition 0."""
    return image_of(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, **fields), image=image)


async def test_brokers_that_fill_up_together_give_a_partition_up_one_after_the_other() -> None:
    """Else all would leave it within a check, and it had no leader."""
    image = image_of(
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=FIRST_METADATA_VERSION),
        *topic("t", 7, [3, 1, 2]),
        PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, directories=(A, A, A)),
    )
    nodes = {node_id: Node(node_id) for node_id in (1, 2, 3)}
    for node in nodes.values():
        node.replicas[0].log.is_offline = True

    async def check(times: int) -> list[int]:
        """Who says meanwhile that its replica is lost."""
        said = []
        for _ in range(times):
            for node_id, node in nodes.items():
                node.cache.image = image
                await node.assignments.reconcile()
                said += [node_id for asked in node.asked if asked == {LOST: [0]}]
                node.asked.clear()
        return said

    assert await check(1) == [3], "the leader"
    image = change(image, leader=1, isr=(1, 2), directories=(LOST, A, A))
    for node in nodes.values():
        delta = MetadataDelta(EMPTY)
        delta.replay_all(topic("t", 7, [3, 1, 2]))
        node.assignments.follow(delta, image)
    assert await check(1) == [1], "the next leader"
    image = change(image, leader=2, isr=(2,), directories=(LOST, LOST, A))
    assert await check(3 * CHECKS_EACH) == [], "the last one stays"


async def test_a_follower_that_is_full_alone_leaves_a_moment_later() -> None:
    node = Node()
    node.cache.image = change(IMAGE, replicas=(2, 1), isr=(1, 2), leader=2, directories=(A, A))
    node.replicas[0].log.is_offline = True
    node.replicas[1].log.folder = "/a/t-1"
    for _ in range(CHECKS_EACH):
        await node.assignments.reconcile()
        assert node.asked == []
    node.is_reachable = False
    await node.assignments.reconcile()
    node.is_reachable = True
    await node.assignments.reconcile()
    assert node.asked == [{LOST: [0]}] * 2, "what fails is tried again at once"


async def test_the_directory_of_a_partition_without_a_leader_is_told_once_more() -> None:
    """Kafka's controller looks at the directory that it knew before: it elects nobody the first time."""
    node = Node()
    node.replicas[1].log.folder = "/a/t-1"
    node.cache.image = change(IMAGE, leader=-1, directories=(LOST,))
    await node.assignments.reconcile()
    assert node.asked == [{A: [0]}]
    node.cache.image = change(node.cache.image, directories=(A,))
    node.is_reachable = False
    await node.assignments.reconcile()
    node.is_reachable = True
    for _ in range(3):
        await node.assignments.reconcile()
    assert node.asked == [{A: [0]}] * 3, "once, and the one that failed"


async def test_the_directory_is_not_told_again_when_a_leader_was_elected() -> None:
    node = Node()
    node.replicas[1].log.folder = "/a/t-1"
    node.cache.image = change(IMAGE, leader=-1, directories=(LOST,))
    await node.assignments.reconcile()
    node.cache.image = change(node.cache.image, leader=1, directories=(A,))
    for _ in range(3):
        await node.assignments.reconcile()
    assert node.asked == [{A: [0]}]
