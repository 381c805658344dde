"""The controller of simulated brokers: what `controller` decides, at once, in a process that never fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.alter_partition.v3 import AlterPartitionResponse
from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.broker_registration.v4 import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.request import Feature

from controller import alter_partition, broker_changes, reassignments, registration
from controller.replica_rules import ELR_FEATURE
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration
from protocol.durations import ZERO
from protocol.errors import StaleBrokerEpoch
from protocol.metadata.topics import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tests.unit.controller.images import Schema, image_of

TOPIC, TOPIC_ID = "t", UUID(int=77)
SCHEMA = Schema()
CLUSTER_ID = "simulated"
FEATURES = (
    Feature(name="metadata.version", min_supported_version=1, max_supported_version=33),
    Feature(name=ELR_FEATURE, min_supported_version=0, max_supported_version=1),
)


class Controller:
    """Decides at once; `publish` is called with the records of each decision, in their order.

    With `elr` replicas stay eligible when the ISR is too small (KIP-966).
    """

    def __init__(
        self, rng: random.Random, publish: Callable[[list[Any], MetadataImage], None], *, elr: bool = False
    ) -> None:
        self._rng = rng
        self._publish = publish
        self.image: MetadataImage = image_of(FeatureLevelRecord(name=ELR_FEATURE, feature_level=int(elr)))
        self._ids = iter(range(1 << 40, 1 << 41))

    def _decide(self, records: Iterable[Any]) -> None:
        decided = list(records)
        if not decided:
            return
        self.image = image_of(*decided, image=self.image)
        self._publish(decided, self.image)

    @property
    def partitions(self) -> Iterable[tuple[int, PartitionRegistration]]:
        topic = self.image.topics.get(TOPIC)
        return [] if topic is None else topic.in_order()

    def partition(self, index: int) -> PartitionRegistration:
        return dict(self.partitions)[index]

    def is_alive(self, node: int) -> bool:
        broker = self.image.cluster.brokers.get(node)
        return broker is not None and not broker.fenced

    def leads(self, node: int) -> bool:
        return broker_changes.leads_something(self.image, node)

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

    def register(self, node: int, previous_epoch: int) -> int:
        """Register a new run of a broker; return its epoch. `previous_epoch` is that of a clean stop, or -1."""
        request = BrokerRegistrationRequest(
            broker_id=node,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=next(self._ids)),
            listeners=(),
            features=FEATURES,
            rack=None,
            log_dirs=(UUID(int=1000 + node),),
            previous_broker_epoch=previous_epoch,
        )
        decision = registration.decide(
            self.image,
            request,
            SCHEMA,
            cluster_id=CLUSTER_ID,
            is_alive=self.is_alive(node),
            next_offset=self.image.offset + 1,
        )
        assert decision.response is not None
        self._decide(decision.records)
        return decision.response

    def unfence(self, node: int) -> None:
        self._decide(broker_changes.unfence(self.image, SCHEMA, node))

    def fence(self, node: int) -> None:
        if self.is_alive(node):
            self._decide(broker_changes.fence(self.image, SCHEMA, node))

    def begin_shutdown(self, node: int) -> None:
        if self.is_alive(node):
            self._decide(broker_changes.begin_controlled_shutdown(self.image, SCHEMA, node))

    # -- leaders and replicas

    def move_leader(self, index: int) -> None:
        """Let another leader be, as a reassignment does that changes only the order of the replicas."""
        state = self.partition(index)
        able = [node for node in state.isr if self.is_alive(node)]
        if able:
            leader = self._rng.choice(able)
            self._decide([PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, leader=leader)])

    def reassign(self, index: int, target: Sequence[int] | None) -> None:
        """Begin to move a partition to other replicas, or cancel that."""
        wanted = ReassignablePartition(partition_index=index, replicas=None if target is None else tuple(target))
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name=TOPIC, partitions=(wanted,)),), timeout=timedelta(seconds=1)
        )
        self._decide(reassignments.Reassignments(request, SCHEMA).step(self.image).records)

    def alter_partition(self, request: Any) -> AlterPartitionResponse:
        try:
            decision = alter_partition.decide(self.image, request, SCHEMA)
        except StaleBrokerEpoch as error:
            return AlterPartitionResponse(throttle_time=ZERO, error_code=error.code, topics=())
        self._decide(decision.records)
        return decision.response
