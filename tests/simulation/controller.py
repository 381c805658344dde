"""A controller that never fails, for the simulation of brokers: registrations, fencing, elections, AlterPartition.

Its rules are those of Kafka's `ReplicationControlManager`: a leader is elected from the in-sync replicas alone, a
fenced broker leaves the ISR unless it is the last one in it, and AlterPartition is checked against all epochs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from metadata.topics import PartitionRegistration
from protocol.metadata.brokers import FenceBrokerRecord, RegisterBrokerRecord, UnfenceBrokerRecord
from protocol.metadata.settings import ConfigRecord
from protocol.metadata.topics import NO_LEADER, PartitionChangeRecord, PartitionRecord, TopicRecord

TOPIC, TOPIC_ID = "t", UUID(int=77)


class Controller:
    """Decides at once; `publish` is called with the records of each decision, in their order."""

    def __init__(self, rng: random.Random, publish: Callable[[list[Any], MetadataImage], None]) -> None:
        self._rng = rng
        self._publish = publish
        self.image: MetadataImage = EMPTY

    def _decide(self, records: list[Any]) -> None:
        if not records:
            return
        delta = MetadataDelta(self.image)
        delta.replay_all(records)
        self.image = delta.apply(self.image.offset + len(records), 1, 0)
        self._publish(records, self.image)

    @property
    def partitions(self) -> Iterable[tuple[int, PartitionRegistration]]:
        topic = self.image.topics.get(TOPIC)
        return [] if topic is None else topic.in_order()

    def partition(self, index: int) -> PartitionRegistration:
        return dict(self.partitions)[index]

    def is_alive(self, node: int) -> bool:
        broker = self.image.cluster.brokers.get(node)
        return broker is not None and not broker.fenced

    def create(self, assignments: list[tuple[int, ...]], **configs: str) -> None:
        made: list[Any] = [TopicRecord(name=TOPIC, topic_id=TOPIC_ID)]
        made += [
            ConfigRecord(resource_type=2, resource_name=TOPIC, name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ]
        made += [
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=(None,) * len(replicas),
            )
            for index, replicas in enumerate(assignments)
        ]
        self._decide(made)

    # -- brokers

    def register(self, node: int) -> int:
        """Register a new run of a broker; return its epoch."""
        epoch = self.image.offset + 1
        record = RegisterBrokerRecord(
            broker_id=node,
            broker_epoch=epoch,
            incarnation_id=UUID(int=epoch + 1),
            end_points=(),
            features=(),
            rack=None,
        )
        self._decide([record])
        return epoch

    def unfence(self, node: int) -> None:
        """Let the broker serve; it leads again what it alone can lead."""
        epoch = self.image.cluster.brokers[node].epoch
        self._decide([UnfenceBrokerRecord(id=node, epoch=epoch)])
        for index, state in self.partitions:
            if state.leader == NO_LEADER and node in state.isr:
                self._change(index, leader=node)

    def fence(self, node: int) -> None:
        if not self.is_alive(node):
            return
        epoch = self.image.cluster.brokers[node].epoch
        self._decide([FenceBrokerRecord(id=node, epoch=epoch)])
        for index, state in self.partitions:
            if node not in state.isr:
                continue
            isr = tuple(one for one in state.isr if one != node) or (node,)
            changes: dict[str, Any] = {} if isr == state.isr else {"isr": isr}
            if state.leader == node:
                changes["leader"] = next((one for one in isr if self.is_alive(one)), NO_LEADER)
            if changes:
                self._change(index, **changes)

    def move_leader(self, index: int) -> None:
        """Elect another leader, as a preferred election or a reassignment does."""
        state = self.partition(index)
        able = [one for one in state.isr if self.is_alive(one)]
        if able:
            self._change(index, leader=self._rng.choice(able))

    def _change(self, index: int, **changes: Any) -> None:
        self._decide([PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, **changes)])

    # -- AlterPartition

    def alter_partition(self, request: Any) -> Any:
        broker = self.image.cluster.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return SimpleNamespace(error_code=ErrorCode.stale_broker_epoch, topics=())
        topics = [
            SimpleNamespace(
                topic_id=topic.topic_id,
                partitions=[self._alter(request.broker_id, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
        return SimpleNamespace(error_code=ErrorCode.none, topics=topics)

    def _alter(self, node: int, asked: Any) -> Any:
        state = self.partition(asked.partition_index)
        isr = tuple(one.broker_id for one in asked.new_isr_with_epochs)
        error = self._error(node, asked, state, isr)
        if error is ErrorCode.none and set(isr) != set(state.isr):
            self._change(asked.partition_index, isr=isr)
        state = self.partition(asked.partition_index)
        return SimpleNamespace(
            partition_index=asked.partition_index,
            error_code=error,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
        )

    def _error(self, node: int, asked: Any, state: PartitionRegistration, isr: tuple[int, ...]) -> ErrorCode:
        if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
            return ErrorCode.not_controller
        if asked.leader_epoch < state.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if state.leader != node:
            return ErrorCode.invalid_request
        if asked.partition_epoch < state.partition_epoch:
            return ErrorCode.invalid_update_version
        if not isr or node not in isr or not set(isr) <= set(state.replicas):
            return ErrorCode.invalid_request
        for one in asked.new_isr_with_epochs:
            broker = self.image.cluster.brokers[one.broker_id]
            if broker.fenced or one.broker_epoch not in (-1, broker.epoch):
                return ErrorCode.ineligible_replica
        return ErrorCode.none
