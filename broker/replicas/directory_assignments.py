"""Tells the controller in which folder of `log.dirs` each replica here is (Kafka's `AssignmentsManager`, KIP-858).

The controller needs to know when a folder fails: it then moves the leaders away that are in there. A replica whose
folder it takes for lost cannot lead, even if it is in sync again in a new one; so a node with one folder has to tell,
too. The image has what the controller knows; what differs is sent, until it is the same.

A replica that this node cannot write, as its folder has no room (`full_folders`) or its log is offline, is said to be
lost, if another broker has it in sync: else this node would go on leading it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kio.schema.assign_replicas_to_dirs.v0.request import DirectoryData, PartitionData, TopicData
from kio.schema.errors import ErrorCode

from broker.peers.errors import PeerError
from broker.replicas.full_folders import FullFolders
from controller.replica_rules import LOST
from protocol import uuids
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from broker.cluster.metadata_cache import MetadataCache
    from broker.replicas.partition import Partition
    from broker.replicas.replica_manager import ReplicaManager
    from metadata.delta import MetadataDelta
    from metadata.image import MetadataImage
    from metadata.topics import PartitionRegistration

logger = structlog.get_logger(__name__)

CHECK_MS = 500
MOST_AT_ONCE = 2_250
"""Replicas of one request (`AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST`)."""
FIRST_METADATA_VERSION = 17
"""3.7-IV2 brought directories into the metadata."""

Assign = Callable[[AssignReplicasToDirsRequest], Awaitable[AssignReplicasToDirsResponse]]

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
        self._changed = {topic_id for topic_id, _ in wanted}
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
        """The folder of each replica whose folder is another one in the image."""
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
            directory = self._directory(partition, state, known)
            if directory is not None and state.directory_of(self._node_id) != directory:
                found[partition.topic_id, partition.index] = directory
        return found

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
