"""A member of a streams group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.group.streams.messages import JOINING, LEFT_FOR_A_WHILE
from coordinator.group.streams.states import MemberState
from coordinator.group.streams.tasks import NO_TASKS, Task, each_task
from protocol.coordinator_records.streams_group_records import (
    Endpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    Tasks,
)

NO_EPOCHS: Mapping[Task, int] = {}


class StreamsMember(NamedTuple):
    """Kafka's `StreamsGroupMember`. All of it is durable.

    `epoch` is LEFT_FOR_A_WHILE for a static member that is expected back. `assigned` is what the member may use now,
    `pending_revocation` what it must give up; `epochs` are, by active task, those at which it got it. The timeout
    is in ms.
    """

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    pending_revocation: Tasks = NO_TASKS
    epochs: Mapping[Task, int] = NO_EPOCHS

    @property
    def is_away(self) -> bool:
        return self.epoch == LEFT_FOR_A_WHILE

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def away(self) -> StreamsMember:
        """The static member once it has left for a while: nothing that it commits late counts as of before."""
        return self._replace(
            epoch=LEFT_FOR_A_WHILE,
            pending_revocation=NO_TASKS,
            epochs=dict.fromkeys(each_task(self.assigned.active), 0),
        )

    # -- records

    def metadata_value(self) -> StreamsGroupMemberMetadataValue:
        return StreamsGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=self.user_endpoint,
            client_tags=self.client_tags,
        )

    def assignment_value(self) -> StreamsGroupCurrentMemberAssignmentValue:
        return StreamsGroupCurrentMemberAssignmentValue(
            self.epoch, self.previous_epoch, self.state.value, self.assigned, self.pending_revocation, self.epochs
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        return self._replace(**value._asdict())

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=value.assigned,
            pending_revocation=value.pending_revocation,
            epochs=value.epochs,
        )
