"""Random lives of a cluster of five brokers: what must hold of every partition, whatever happens.

Only replicas that were in sync or eligible are elected, or the last leader; ISR, ELR and leader fit each other; epochs
never fall.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kio.schema.alter_partition.v3 import AlterPartitionRequest
from kio.schema.alter_partition.v3.request import BrokerState, PartitionData, TopicData
from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic

from controller import alter_partition, broker_changes, reassignments
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration
from protocol.metadata.topics import FeatureLevelRecord
from tests.unit.controller.images import Schema, broker, image_of, topic

BROKERS = (1, 2, 3, 4, 5)
TOPIC = UUID(int=1)
SCHEMA = Schema()
broker_ids = st.sampled_from(BROKERS)


def first(image: MetadataImage) -> PartitionRegistration:
    return image.topics.by_name["t"].partitions[0]


class Life(RuleBasedStateMachine):
    """One partition; `target` is that of the last reassignment."""

    def __init__(self) -> None:
        super().__init__()
        self.image = image_of(
            FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
            *map(broker, BROKERS),
            *topic("t", 1, [1, 2, 3], configs={"min.insync.replicas": "2"}),
        )
        self.target: tuple[int, ...] | None = None

    def apply(self, records: Any, in_sync: Iterable[int] = (), crashed: Iterable[int] = ()) -> None:
        """Apply the records; `in_sync` are those of which the leader says so, `crashed` may have lost records."""
        before = first(self.image)
        self.image = image_of(*records, image=self.image)
        after = first(self.image)
        assert after.leader_epoch >= before.leader_epoch
        assert after.partition_epoch >= before.partition_epoch
        if after.leader != before.leader and after.has_leader:
            assert after.leader_epoch > before.leader_epoch
            known = {*before.isr, *before.elr, *in_sync}.difference(crashed)
            assert after.leader in known or (not known and (after.leader,) == before.last_known_elr)

    def is_up(self, broker_id: int) -> bool:
        return self.image.cluster.brokers[broker_id].is_active

    @rule(broker_id=broker_ids)
    def silent(self, broker_id: int) -> None:
        if not self.image.cluster.brokers[broker_id].fenced:
            self.apply(broker_changes.fence(self.image, SCHEMA, broker_id))

    @rule(broker_id=broker_ids)
    def shuts_down(self, broker_id: int) -> None:
        if self.is_up(broker_id):
            self.apply(broker_changes.begin_controlled_shutdown(self.image, SCHEMA, broker_id))

    @rule(broker_id=broker_ids, is_clean=st.booleans())
    def comes_back(self, broker_id: int, is_clean: bool) -> None:
        if self.is_up(broker_id):
            return
        if is_clean:
            self.apply(broker_changes.leave(self.image, SCHEMA, broker_id))
        else:
            self.apply(broker_changes.crashed(self.image, SCHEMA, broker_id), crashed=[broker_id])
        self.apply([broker(broker_id, fenced=True)])
        self.apply(broker_changes.unfence(self.image, SCHEMA, broker_id))

    @precondition(lambda self: first(self.image).has_leader)
    @rule(data=st.data())
    def leader_changes_the_isr(self, data: st.DataObject) -> None:
        partition = first(self.image)
        wanted = data.draw(st.sets(st.sampled_from(partition.replicas))) | {partition.leader}
        asked = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=tuple(BrokerState(broker_id=node_id) for node_id in sorted(wanted)),
            leader_recovery_state=0,
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=5,
            topics=(TopicData(topic_id=TOPIC, partitions=(asked,)),),
        )
        decision = alter_partition.decide(self.image, request, SCHEMA)
        code = decision.response.topics[0].partitions[0].error_code.name
        if not all(map(self.is_up, wanted)):
            assert code == "ineligible_replica"
        else:
            assert code in ("none", "new_leader_elected")
        self.apply(decision.records, wanted)

    @rule(replicas=st.lists(broker_ids, min_size=1, max_size=4, unique=True))
    def reassign(self, replicas: list[int]) -> None:
        self.target = tuple(replicas)
        self._reassign(self.target)

    @precondition(lambda self: self.target is not None)
    @rule()
    def cancel(self) -> None:
        self._reassign(None)

    def _reassign(self, replicas: tuple[int, ...] | None) -> None:
        wanted = ReassignableTopic(name="t", partitions=(ReassignablePartition(partition_index=0, replicas=replicas),))
        request = AlterPartitionReassignmentsRequest(topics=(wanted,), timeout=timedelta(seconds=1))
        decision = reassignments.Reassignments(request, SCHEMA).step(self.image)
        self.apply(decision.records)

    @invariant()
    def holds(self) -> None:
        partition = first(self.image)
        isr, elr, replicas = set(partition.isr), set(partition.elr), set(partition.replicas)
        assert not isr & elr
        assert isr | elr <= replicas
        assert len(isr) == len(partition.isr)
        assert len(replicas) == len(partition.replicas) == len(partition.directories)
        assert all(map(self.is_up, isr))
        if partition.has_leader:
            assert partition.leader in isr
            assert not partition.last_known_elr
        else:
            assert not isr
            assert not [node_id for node_id in elr if self.is_up(node_id) and node_id in replicas]
        removing, adding = set(partition.removing_replicas), set(partition.adding_replicas)
        assert removing | adding <= replicas


TestLife = pytest.mark.long(Life.TestCase)
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
