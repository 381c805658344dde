"""Clients of whole nodes in virtual time: transactional producers, and a group that commits offsets.

They find coordinators and leaders as stock clients do, repeat what is not answered or what may be repeated, and
remember what they were told.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics

from tests.unit.broker.cluster_rig import ClusterRig
from tests.unit.broker.wire import answer, batch, produce

TOPIC = "t"
GROUP_KEY, TRANSACTION_KEY = 0, 1
ANSWER_MS = 8_000
PATIENCE_MS = 5_000
TRANSACTION_TIMEOUT = timedelta(seconds=30)

AGAIN = {
    "concurrent_transactions",
    "coordinator_load_in_progress",
    "coordinator_not_available",
    "fenced_leader_epoch",
    "kafka_storage_error",
    "network_exception",
    "not_coordinator",
    "not_enough_replicas",
    "not_enough_replicas_after_append",
    "not_leader_or_follower",
    "request_timed_out",
    "unknown_topic_or_partition",
    "unstable_offset_commit",
}
"""Errors after which a client repeats its request."""


class LostError(Exception):
    """The producer cannot go on: another instance must take its place."""


class WholeClient:
    """Asks nodes. `is_up` nodes are those that run; an answer may get lost all the same."""

    def __init__(self, cluster: ClusterRig, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self.stopping = False

    async def ask(self, node_id: int, api: str, version: int, **fields: Any) -> Any:
        """The answer, or None if none comes."""
        clock, rig = self._cluster.clock, self._cluster.nodes[node_id]
        if not hasattr(rig, "node"):
            return None
        client = rig.connect()
        client.send(api, version, **fields)
        end_ms = clock.monotonic_ms() + ANSWER_MS
        while self._cluster.nodes[node_id] is rig and clock.monotonic_ms() < end_ms:
            await clock.sleep(self._rng.choice([1, 5, 20]))
            replies = client.replies()
            if replies:
                client.transport.reset()
                return None if self._rng.random() < 0.05 else answer(replies[0], api, version)
        return None

    def any_node(self) -> int | None:
        up = [node_id for node_id, rig in self._cluster.nodes.items() if hasattr(rig, "node")]
        return self._rng.choice(up) if up else None

    async def coordinator(self, key_type: int, key: str) -> int:
        """The id of the coordinator that some node names."""
        while True:
            node_id = self.any_node()
            found = None
            if node_id is not None:
                found = await self.ask(node_id, "find_coordinator", 4, key_type=key_type, coordinator_keys=(key,))
            if found is not None and found.coordinators[0].error_code.name == "none":
                return int(found.coordinators[0].node_id)
            await self.pause()

    def leader(self, index: int) -> int | None:
        """The leader that some node names."""
        node_id = self.any_node()
        if node_id is None:
            return None
        known = self._cluster.nodes[node_id].node.cluster.cache.image.topics.get(TOPIC)
        leader = -1 if known is None else known.partitions[index].leader
        return leader if leader >= 0 else None

    async def pause(self) -> None:
        await self._cluster.clock.sleep(self._rng.choice([20, 100, 300]))


class TransactionalClient(WholeClient):
    """Attributes:
    ended: whether each transaction was committed, by its number; None where nobody knows.
    """

    produce_version = 12
    may_have_to_abort = False

    def __init__(self, cluster: ClusterRig, rng: random.Random, name: str, partitions: Sequence[int]) -> None:
        super().__init__(cluster, rng)
        self.name = name
        self.ended: list[bool | None] = []
        self.partitions = partitions
        self._id = self._epoch = -1
        self._sequences: dict[int, int] = {}

    async def run(self) -> None:
        while not self.stopping:
            await self._init()
            try:
                while not self.stopping:
                    await self._transaction()
                    await self.pause()
            except LostError:
                continue
        await self._init()  # ends what is open

    async def _until_done(self, api: str, version: int, **fields: Any) -> Any:
        """The coordinator's answer without an error. Raises LostError for one that will not pass."""
        while True:
            coordinator = await self.coordinator(TRANSACTION_KEY, self.name)
            found = await self.ask(coordinator, api, version, transactional_id=self.name, **fields)
            code = "network_exception" if found is None else found.error_code.name
            if code == "none":
                return found
            if code not in AGAIN:
                raise LostError(f"{api}: {code}")
            await self.pause()

    async def _init(self) -> None:
        found = await self._until_done(
            "init_producer_id", 4, transaction_timeout=TRANSACTION_TIMEOUT, producer_id=-1, producer_epoch=-1
        )
        self._take(found)

    def _take(self, found: Any) -> None:
        self._id, self._epoch = found.producer_id, found.producer_epoch
        self._sequences = {}

    async def _transaction(self) -> None:
        number = len(self.ended)
        self.ended.append(None)
        wants_commit = self._rng.random() < 0.7
        for record in range(self._rng.randint(1, 3)):
            for index in self.partitions:
                if not await self._send(index, f"{self.name}:{number}:{record}".encode()):
                    wants_commit = False
        await self._end(wants_commit)
        self.ended[number] = wants_commit

    async def _end(self, commit: bool) -> None:
        self._take(await self._until_done("end_txn", 5, committed=commit, **self._producer()))

    def _producer(self) -> dict[str, int]:
        return {"producer_id": self._id, "producer_epoch": self._epoch}

    async def _send(self, index: int, value: bytes) -> bool:
        """Return once it is acknowledged; False if the transaction has to be aborted. Raises LostError."""
        sequence = self._sequences.get(index, 0)
        records = batch(
            value, producer_id=self._id, producer_epoch=self._epoch, base_sequence=sequence, transactional=True
        )
        fields = {**produce(TOPIC, {index: records}, timeout_ms=PATIENCE_MS), "transactional_id": self.name}
        while True:
            leader = self.leader(index)
            found = None if leader is None else await self.ask(leader, "produce", self.produce_version, **fields)
            code = "network_exception"
            if found is not None:
                code = found.responses[0].partition_responses[0].error_code.name
            if code in ("none", "duplicate_sequence_number"):
                self._sequences[index] = sequence + 1
                return True
            if code == "transaction_abortable" and self.may_have_to_abort:
                return False
            assert code != "transaction_abortable", f"{self.name}:{len(self.ended) - 1} was open"
            if code not in AGAIN:
                raise LostError(f"produce: {code}")
            await self.pause()


class OldTransactionalClient(TransactionalClient):
    """Of transactions V1: it adds partitions itself, and goes on in the same epoch.

    A coordinator that is cut off, and has been replaced, may still have the transaction before, and answer that the
    partition is in it already, in Kafka too. Then the leader, which asks the new one, refuses the append.
    """

    produce_version = 11
    may_have_to_abort = True

    async def _send(self, index: int, value: bytes) -> bool:
        if index not in self._added:
            topics = (AddPartitionsToTxnTopic(name=TOPIC, partitions=(index,)),)
            await self._until_added(topics)
            self._added.add(index)
        return await super()._send(index, value)

    async def _until_added(self, topics: Sequence[AddPartitionsToTxnTopic]) -> None:
        fields = {f"v3_and_below_{name}": value for name, value in self._producer().items()}
        while True:
            coordinator = await self.coordinator(TRANSACTION_KEY, self.name)
            found = await self.ask(
                coordinator,
                "add_partitions_to_txn",
                3,
                v3_and_below_transactional_id=self.name,
                v3_and_below_topics=topics,
                **fields,
            )
            code = "network_exception"
            if found is not None:
                code = found.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code.name
            if code == "none":
                return
            if code not in AGAIN:
                raise LostError(f"add_partitions_to_txn: {code}")
            await self.pause()

    async def _end(self, commit: bool) -> None:
        if self._added:
            await self._until_done("end_txn", 4, committed=commit, **self._producer())
        self._added.clear()

    def _take(self, found: Any) -> None:
        super()._take(found)
        self._added: set[int] = set()


class CommittingClient(WholeClient):
    """Commits offsets of a group, each larger than the one before.

    Attributes:
        acknowledged: the last that was.
        sent: the last that was tried.
    """

    def __init__(self, cluster: ClusterRig, rng: random.Random, group: str) -> None:
        super().__init__(cluster, rng)
        self.group = group
        self.acknowledged = self.sent = -1

    async def run(self) -> None:
        while not self.stopping:
            self.sent += 1
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=self.sent, committed_leader_epoch=-1, committed_metadata=""
            )
            coordinator = await self.coordinator(GROUP_KEY, self.group)
            found = await self.ask(
                coordinator,
                "offset_commit",
                8,
                group_id=self.group,
                member_id="",
                topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
            )
            if found is not None:
                code = found.topics[0].partitions[0].error_code.name
                assert code in AGAIN | {"none"}, code
                if code == "none":
                    self.acknowledged = self.sent
            await self.pause()

    async def committed(self, index: int = 0) -> int:
        """What the group's coordinator says now of a partition."""
        topics = (OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(index,)),)
        wanted = (OffsetFetchRequestGroup(group_id=self.group, topics=topics),)
        while True:
            coordinator = await self.coordinator(GROUP_KEY, self.group)
            found = await self.ask(coordinator, "offset_fetch", 8, groups=wanted, require_stable=True)
            if found is not None and found.groups[0].error_code.name == "none":
                return int(found.groups[0].topics[0].partitions[0].committed_offset)
            await self.pause()
