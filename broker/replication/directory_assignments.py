"""Tells the controller in which folder of `log.dirs` each replica here is (Kafka's `AssignmentsManager`, KIP-858).

The controller needs to know when a folder fails: it then moves the leaders away that are in there. A replica whose
folder it takes for lost cannot lead, even if it is in sync again in a new one; so a node with one folder has to tell,
too. The image has what the controller knows; what differs is sent, until it is the same.

A replica that this node cannot write, as its folder has no room (`full_folders`) or its log is offline, is said to be
lost, if another broker has it in sync: else this node would go on leading it. Brokers may fill up together, and a
partition that all give up has no leader: so the leader says it at once, the others in sync one after the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from broker.peers.call import PeerError
from broker.replication.folders import FullFolders
from controller.replica_rules import LOST
from protocol import uuids
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

    from broker.membership.metadata_cache import MetadataCache
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from metadata.delta import MetadataDelta
    from metadata.image import MetadataImage
    from metadata.topics import PartitionRegistration

    Assign = Callable[[AssignReplicasToDirsRequest], Awaitable[AssignReplicasToDirsResponse]]

logger = structlog.get_logger(__name__)

CHECK_MS = 500
CHECKS_EACH = 2
"""How many checks after the one before it a broker says that its replica is lost: the image has changed by then."""
MOST_AT_ONCE = 2_250
"""Replicas of one request (`AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST`)."""
FIRST_METADATA_VERSION = 17
"""3.7-IV2 brought directories into the metadata."""


Replica = tuple[UUID, int]
"""Topic id and partition."""


class DirectoryAssignments:
    """`reconcile` looks at topics that have changed, and at all once logs have moved or failed and in the first call.

    That call comes before the node is unfenced, so before a replica here can be in sync: the controller elects no
    leader later on, when it learns that the folder of a replica is not lost. The others are a periodic job.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        cache: MetadataCache,
        replicas: ReplicaManager,
        assign: Assign,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._cache = cache
        self._replicas = replicas
        self._assign = assign
        self._all = True
        self._changed: set[UUID] = set()
        self._seen = 0, 0
        self._full = FullFolders(replicas.logs)
        self._waits: dict[Replica, tuple[tuple[int, ...], int]] = {}
        self._reported: set[Replica] = set()

    def follow(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        """Note which topics to look at: replicas may be new here, or the metadata may have directories from now on."""
        if delta.touched("topics"):
            self._changed.update(delta.topics.changed)
        self._all |= delta.touched("features")

    def logs_made(self, topics: Iterable[str]) -> None:
        """Note that logs of these topics are there now, which could not be made before."""
        self._changed.update(topic.id for topic in filter(None, map(self._cache.image.topics.get, topics)))

    async def reconcile(self) -> None:
        """Tell the controller the folders that it does not know; what fails is tried again with the next call."""
        seen = self._replicas.moves.ended, self._replicas.logs.failures
        self._all |= seen != self._seen
        self._seen = seen
        self._all |= self._full.look()
        if not self._all and not self._changed:
            return
        wanted = self._differences(self._replicas if self._all else self._of_changed_topics())
        self._all = False
        self._reported.intersection_update(wanted)
        self._changed = {topic_id for topic_id, _ in (*wanted, *self._waits)}
        if not wanted:
            return
        self._say_lost(wanted)
        places = iter(wanted.items())
        while some := dict(islice(places, MOST_AT_ONCE)):
            try:
                answer = await self._assign(self._request(some))
            except (PeerError, KafkaError) as error:
                logger.warning("directories of replicas not assigned", error=str(error))
                return
            if answer.error_code is not ErrorCode.none:
                logger.warning("directories of replicas not assigned", error=answer.error_code.name)
                return
            self._note_reported(some)

    def _note_reported(self, some: dict[Replica, UUID]) -> None:
        """Note what has no leader though it can be used here: it is told once more.

        Kafka's controller does not elect a replica before its directory of before the request was online.
        """
        topics = self._cache.image.topics
        for (topic_id, index), directory in some.items():
            topic = topics.by_id(topic_id)
            state = None if topic is None else topic.partitions.get(index)
            if (topic_id, index) in self._reported:
                self._reported.discard((topic_id, index))
            elif directory != LOST and state is not None and not state.has_leader:
                self._reported.add((topic_id, index))

    def _say_lost(self, wanted: dict[Replica, UUID]) -> None:
        lost = [replica for replica, directory in wanted.items() if directory == LOST]
        if lost:
            logger.error(
                "replicas cannot be written here: other brokers are to lead them",
                replicas=len(lost),
                without_room=sorted(self._full.paths),
                advice="free some room, or see why logs are offline; what no other broker has in sync stays as it is",
            )

    def _of_changed_topics(self) -> Iterator[Partition]:
        for topic in filter(None, map(self._cache.image.topics.by_id, self._changed)):
            yield from filter(None, (self._replicas.get(topic.name, index) for index in topic.partitions))

    def _differences(self, partitions: Iterable[Partition]) -> dict[Replica, UUID]:
        """The folder of each replica whose folder is another one in the image, or is to be told once more."""
        former, self._waits = self._waits, {}
        image = self._cache.image
        if image.metadata_version < FIRST_METADATA_VERSION:
            return {}
        known = {
            each.path: uuids.from_text(each.directory_id)
            for each in self._replicas.logs.usable_dirs
            if each.directory_id
        }
        found: dict[Replica, UUID] = {}
        for partition in partitions:
            topic = image.topics.by_id(partition.topic_id)
            state = None if topic is None else topic.partitions.get(partition.index)
            if state is None or self._node_id not in state.replicas:
                continue
            replica = partition.topic_id, partition.index
            directory = self._directory(partition, state, known)
            if directory is None:
                continue
            if state.directory_of(self._node_id) != directory:
                if directory != LOST or self._is_our_turn(state, replica, former):
                    found[replica] = directory
            elif replica in self._reported and not state.has_leader:
                found[replica] = directory
        return found

    def _is_our_turn(
        self, state: PartitionRegistration, replica: Replica, former: dict[Replica, tuple[tuple[int, ...], int]]
    ) -> bool:
        """Whether this broker may say now that its replica is lost, unless the leader or the ISR changes meanwhile."""
        if self._node_id not in state.isr:
            return True
        order = state.leader, *sorted(set(state.isr) - {state.leader})
        same, checks = former.get(replica, (order, 0))
        checks = checks + 1 if same == order else 1
        self._waits[replica] = order, checks
        return checks > CHECKS_EACH * order.index(self._node_id)

    def _directory(self, partition: Partition, state: PartitionRegistration, known: dict[str, UUID]) -> UUID | None:
        """Where the controller shall think that the replica is; None for no matter.

        It hears of failed folders with the heartbeats.
        """
        log = partition.log
        folder = log.folder.rpartition("/")[0]
        here = known.get(folder)
        if here is None or not (log.is_offline or folder in self._full.paths):
            return here
        if state.has_leader and any(node_id != self._node_id for node_id in state.isr):
            return LOST
        return None if log.is_offline else here

    def _request(self, wanted: dict[Replica, UUID]) -> AssignReplicasToDirsRequest:
        from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest
        from kio.schema.assign_replicas_to_dirs.v0.request import DirectoryData, PartitionData, TopicData

        by_directory: dict[UUID, dict[UUID, list[int]]] = {}
        for (topic_id, index), directory in wanted.items():
            by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=tuple(
                DirectoryData(
                    id_=directory,
                    topics=tuple(
                        TopicData(
                            topic_id=topic_id,
                            partitions=tuple(PartitionData(partition_index=index) for index in indexes),
                        )
                        for topic_id, indexes in topics.items()
                    ),
                )
                for directory, topics in by_directory.items()
            ),
        )
