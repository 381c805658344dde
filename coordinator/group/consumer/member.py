"""A member of a consumer group."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.group.consumer.assignment import NO_EPOCHS, NO_PARTITIONS, AssignmentEpochs, Partitions, epochs_of
from coordinator.group.consumer.states import MemberState
from protocol.coordinator_records.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

JOINING = 0
LEFT = -1
LEFT_FOR_A_WHILE = -2


class ConsumerMember(NamedTuple):  # cheaper to change than a frozen dataclass
    """Kafka's `ConsumerGroupMember`, with the same defaults. All of it is durable.

    `epoch` is LEFT_FOR_A_WHILE for a static member that is expected back. `assigned` is what the member may use now,
    `pending_revocation` what it must give up; `epochs` says since which epoch it has each of them. `classic` is set if
    it speaks the classic protocol; then it takes its epoch for the generation. The timeout is in ms.
    """

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    pending_revocation: Partitions = NO_PARTITIONS
    epochs: AssignmentEpochs = NO_EPOCHS
    classic: ClassicMemberMetadata | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    # -- records

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topics)),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic=self.classic,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned=self.assigned,
            pending_revocation=self.pending_revocation,
            epochs=self.epochs,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=value.assigned,
            pending_revocation=value.pending_revocation,
            epochs=value.epochs or _at_one_epoch(value),
        )

    def without_assignment(self) -> ConsumerMember:
        return self._replace(
            epoch=LEFT,
            previous_epoch=LEFT,
            assigned=NO_PARTITIONS,
            pending_revocation=NO_PARTITIONS,
            epochs=NO_EPOCHS,
        )


def _at_one_epoch(value: ConsumerGroupCurrentMemberAssignmentValue) -> AssignmentEpochs:
    """For records of Kafka 4.1, which tell no epochs: the member's, as Kafka 4.4 reads them."""
    epochs = epochs_of(value.assigned, value.member_epoch)
    for topic, given in epochs_of(value.pending_revocation, value.member_epoch).items():
        epochs.setdefault(topic, {}).update(given)
    return epochs
