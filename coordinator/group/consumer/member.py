"""A member of a consumer group, and the partitions that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from coordinator.group.modern.group import JOINING, LEFT, LEFT_FOR_A_WHILE, MemberState
from protocol.coordinator_records.consumer_group_records import (
    AssignmentEpochs,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    Partitions,
)

NO_PARTITIONS: Partitions = {}
"""A topic's set is empty only where a classic member's share of it was."""

NO_EPOCHS: AssignmentEpochs = {}


def epochs_of(partitions: Partitions, epoch: int) -> dict[UUID, dict[int, int]]:
    """One epoch for all (KIP-1251)."""
    return {topic: dict.fromkeys(indexes, epoch) for topic, indexes in partitions.items()}


class ResolvedRegex(NamedTuple):
    """The topics that matched (Kafka's `ResolvedRegularExpression`).

    `version` is that of the topics when they were matched; `timestamp_ms` is of the wall clock.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


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

    def away(self) -> ConsumerMember:
        """The static member once it has left for a while: nothing that it commits late counts as of before."""
        return self._replace(
            epoch=LEFT_FOR_A_WHILE, pending_revocation=NO_PARTITIONS, epochs=epochs_of(self.assigned, 0)
        )

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
            self.epoch, self.previous_epoch, self.state, self.assigned, self.pending_revocation, self.epochs
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
        return ConsumerMember(self.member_id, LEFT, LEFT).with_metadata(self.metadata_value())


def _at_one_epoch(value: ConsumerGroupCurrentMemberAssignmentValue) -> AssignmentEpochs:
    """For records of Kafka 4.1, which tell no epochs: the member's, as Kafka 4.4 reads them."""
    epochs = epochs_of(value.assigned, value.member_epoch)
    for topic, given in epochs_of(value.pending_revocation, value.member_epoch).items():
        epochs.setdefault(topic, {}).update(given)
    return epochs


def subscription(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The names of the topics that the member subscribes to, by name and by expression."""
    matched = resolved.get(member.regex) if member.regex else None
    return member.topics if matched is None else member.topics | matched.topics
