"""The steps that a member's request may cause: a new group epoch, a new target, the member's own step, its removal.

An operation collects records in a `Change`. As in Kafka, they are decided from the group as it was, and only their
replay changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import structlog

from coordinator.group.modern.group import A, M, MemberState, ModernGroup
from coordinator.group.modern.groups import ModernGroups
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)

T = TypeVar("T")


class Change:
    """The records to write, and what to do about soft state (timers, waiters) once they are written.

    `epoch` is the group's new epoch, None if it stays. `otherwise` runs if the records could not be written.
    """

    __slots__ = ("after", "epoch", "otherwise", "records")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.after: list[Callable[[], None]] = []
        self.epoch: int | None = None
        self.otherwise: Callable[[], None] | None = None

    def epoch_of(self, group: ModernGroup[Any, Any]) -> int:
        return group.epoch if self.epoch is None else self.epoch

    def outcome(self, reply: T) -> Outcome[T]:
        return Outcome(self.records, reply, self._effects if self.after else None)

    def _effects(self, error: KafkaError | None) -> None:
        if error is None:
            for effect in self.after:
                effect()
        elif self.otherwise is not None:
            self.otherwise()


def raise_epoch(group: ModernGroup[Any, Any], metadata_hash: int, change: Change) -> None:
    change.epoch = group.epoch + 1
    change.records.append(group.epoch_record(change.epoch, metadata_hash))
    logger.info("bumped group epoch", group=group.group_id, epoch=change.epoch, metadata_hash=metadata_hash)


def assignment_is_due(groups: ModernGroups, group: ModernGroup[Any, Any]) -> bool:
    """Whether the last target is old enough for a new one (KIP-1263); the first of a group is made at once."""
    if not group.members or not group.assigned_ms:
        return True
    interval_ms = groups.config_of(group).assignment_interval_of(group.group_id)
    return not interval_ms or groups.context.clock.wall_ms() >= group.assigned_ms + interval_ms


def target_of(
    groups: ModernGroups,
    group: ModernGroup[M, A],
    member: M,
    assign: Callable[[Mapping[str, M]], Mapping[str, A]],
    change: Change,
) -> tuple[int, A]:
    """The epoch and the assignment that the member shall reach; a new target if it is time for one.

    `assign` makes a target for these members.
    """
    epoch = change.epoch_of(group)
    if epoch == group.assignment_epoch or not assignment_is_due(groups, group):
        return group.assignment_epoch, group.target_of(member)
    targets = assign(group.members_with(member))
    record_target(group, targets, epoch, groups.context.clock.wall_ms(), change)
    return epoch, targets[member.member_id]


def record_target(group: ModernGroup[M, A], targets: Mapping[str, A], epoch: int, now_ms: int, change: Change) -> None:
    """Record what differs from the last target, and the epoch that this one is made for."""
    change.records += [
        group.target_record(member_id, target)
        for member_id, target in targets.items()
        if target != group.target.get(member_id)
    ]
    change.records.append(group.target_epoch_record(epoch, now_ms))
    logger.info("target assignment computed", group=group.group_id, epoch=epoch)


def record_step(groups: ModernGroups, group: ModernGroup[M, A], before: M, after: M, change: Change) -> None:
    """Record the member's step towards its target; it has a limited time to give up what it must."""
    if after == before:
        return
    change.records.append(group.assignment_record(after))
    if not after.is_classic:
        group_id, timeouts = group.group_id, groups.timeouts
        if after.state is MemberState.UNREVOKED:
            change.after.append(lambda: timeouts.start_rebalance(group_id, after))
        else:
            change.after.append(lambda: timeouts.end_rebalance(group_id, after.member_id))


def remove(groups: ModernGroups, group: ModernGroup[M, A], members: Iterable[M]) -> Change:
    """Remove members: the group epoch rises, and the target follows with the heartbeat of another member."""
    change = Change()
    gone = dict.fromkeys(member.member_id for member in members)
    if not gone:
        return change
    for member_id in gone:
        change.records += group.member_tombstones(member_id)
    remaining = {key: member for key, member in group.members.items() if key not in gone}
    change.records += group.tombstones_besides(remaining)
    raise_epoch(group, group.hash_for(remaining.values(), groups.metadata_hash), change)
    if not remaining:  # nothing is left to assign
        emptied_ms = group.emptied_ms(groups.context.clock.wall_ms())
        change.records.append(group.target_epoch_record(change.epoch_of(group), emptied_ms))
    change.after.append(lambda: groups.timeouts.end_all(group.group_id, gone))
    return change
