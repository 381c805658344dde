"""The record of a partition's change: its ISR, ELR and leader, and the end of a reassignment, in one step.

Source: Kafka's `PartitionChangeBuilder` and `PartitionReassignmentReplicas` (KIP-455, KIP-704, KIP-858, KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any
from uuid import UUID

from controller.replica_rules import MIGRATING, ReplicaRules
from metadata.topics import PartitionRegistration, TopicImage
from protocol.metadata.topics import LEADER_UNCHANGED, NO_LEADER, PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1
"""Whether a leader has still to recover from an unclean election (KIP-704)."""


class Election(Enum):
    """Whom an election may choose.

    PREFERRED: the first replica if it may lead, else as ONLINE. ONLINE: the present leader, or another of the ISR.
    UNCLEAN: if these are all gone, any replica that is up, though it may lack records.
    """

    PREFERRED = auto()
    ONLINE = auto()
    UNCLEAN = auto()


class PartitionChange:
    """A change of a partition: set the attributes that are to be different, then call `record`.

    Attributes:
        isr, replicas, removing, adding: what they are to be.
        directories: of replicas that are to lie in another directory.
        recovery_state: what the leader's is to be.
        unclean: brokers that came back after a crash, which may have lost records: they are not eligible.
        election: whom to elect, if the present leader cannot go on.
    """

    def __init__(self, rules: ReplicaRules, topic: TopicImage, index: int) -> None:
        self.partition = partition = topic.partitions[index]
        self.isr: Sequence[int] = partition.isr
        self.replicas: Sequence[int] = partition.replicas
        self.removing: Sequence[int] = partition.removing_replicas
        self.adding: Sequence[int] = partition.adding_replicas
        self.directories: dict[int, UUID | None] = {}
        self.recovery_state = partition.leader_recovery_state
        self.unclean: frozenset[int] = frozenset()
        self.election = Election.ONLINE
        self._rules = rules
        self._topic = topic
        self._index = index
        self._elr: Sequence[int] = partition.elr

    def without(self, broker_ids: Iterable[int]) -> PartitionChange:
        """Take brokers out of the ISR."""
        gone = set(broker_ids)
        self.isr = tuple(node_id for node_id in self.isr if node_id not in gone)
        return self

    def record(self) -> PartitionChangeRecord | None:
        """The record, or None if nothing changes."""
        self._complete_reassignment()
        self._find_eligible()
        changed: dict[str, Any] = self._elected()
        if "leader" not in changed and not set(self.partition.replicas) <= set(self.replicas):
            changed["leader"] = self.partition.leader  # the epoch rises: a replica that is removed must not go on
        self._add_elr(changed)
        isr = tuple(self.isr)
        if "isr" not in changed and isr != self.partition.isr and (isr or self._rules.elr_enabled):
            changed["isr"] = isr
        self._add_last_known_leader(changed)
        self._add_assignment(changed)
        if self.recovery_state != self.partition.leader_recovery_state:
            changed["leader_recovery_state"] = self.recovery_state
        if not changed:
            return None
        return PartitionChangeRecord(topic_id=self._topic.id, partition_id=self._index, **changed)

    # -- steps of `record`

    def _complete_reassignment(self) -> None:
        """End a reassignment if all that it adds are in sync, and one at least that stays.

        If fewer replicas are left than there were, all of them must be in sync: else copies would be removed while too
        few others are complete.
        """
        if not (self.removing or self.adding):
            return
        isr = tuple(node_id for node_id in self.isr if node_id not in self.removing)
        replicas = tuple(node_id for node_id in self.replicas if node_id not in self.removing)
        needed = replicas if len(self.adding) < len(self.removing) else self.adding
        if isr and replicas and {*self.adding, *needed} <= set(isr):
            self.isr, self.replicas, self.removing, self.adding = isr, replicas, (), ()

    def _find_eligible(self) -> None:
        """Keep replicas eligible that leave an ISR which is too small for writes: they have all committed records.

        Deviation: not if they are no replicas any more. In Kafka 4.4 they are still eligible then, and may lead with an
        empty log if a later reassignment brings them back.
        """
        if not self._rules.elr_enabled:
            return
        if len(self.isr) >= self._rules.min_isr(self._topic):
            self._elr = ()
            return
        candidates = {*self._elr, *self.partition.isr} - set(self.isr) - self.unclean
        self._elr = tuple(sorted(candidates & set(self.replicas)))

    def _elected(self) -> dict[str, Any]:
        leader, is_unclean = self._elect()
        if leader == self.partition.leader:
            return {}
        if leader in self._elr:
            self.isr = (leader,)
            self._elr = tuple(node_id for node_id in self._elr if node_id != leader)
        if not is_unclean:
            return {"leader": leader}
        self._elr = ()
        changed: dict[str, Any] = {"leader": leader, "isr": (leader,)}
        if self.partition.leader_recovery_state != RECOVERING:
            changed["leader_recovery_state"] = RECOVERING
        return changed

    def _elect(self) -> tuple[int, bool]:
        """The leader, and whether its election is unclean."""
        preferred = self.replicas[0] if self.election is Election.PREFERRED else NO_LEADER
        for candidate in (preferred, self.partition.leader, *self.replicas):
            if self._is_valid_leader(candidate):
                return candidate, False
        last_known = self._last_known_leader()
        if last_known is not None:
            return last_known, True
        if self.election is Election.UNCLEAN:
            for candidate in self.replicas:
                if self._rules.may_lead(self.partition, candidate):
                    return candidate, True
        return NO_LEADER, False

    def _is_valid_leader(self, broker_id: int) -> bool:
        is_eligible = broker_id in (self.isr or self._elr)
        return is_eligible and self._rules.may_lead(self.partition, broker_id, self.directories)

    def _last_known_leader(self) -> int | None:
        """The last leader, if it is up and no eligible replica is left: nobody else can have more (KIP-966)."""
        known = self.partition.last_known_elr
        if not self._rules.elr_enabled or self.isr or self._elr or len(known) != 1:
            return None
        return known[0] if self._rules.may_lead(self.partition, known[0]) else None

    def _add_elr(self, changed: dict[str, Any]) -> None:
        elr = tuple(self._elr) if self._rules.elr_enabled else ()
        if elr != self.partition.elr:
            changed["eligible_leader_replicas"] = elr

    def _add_last_known_leader(self, changed: dict[str, Any]) -> None:
        """Remember who led last, until there is a leader again."""
        if not self._rules.elr_enabled:
            return
        before, known = self.partition.leader, self.partition.last_known_elr
        leader = changed.get("leader", LEADER_UNCHANGED)
        if leader == NO_LEADER and known != (before,):
            changed["last_known_elr"] = (before,)
        elif known and (leader >= 0 or NO_LEADER not in (before, leader)):
            changed["last_known_elr"] = ()

    def _add_assignment(self, changed: dict[str, Any]) -> None:
        partition = self.partition
        known: Mapping[int, UUID | None] = _directories(partition) | self.directories
        directories = tuple(
            known[node_id] if node_id in known else self._rules.default_directory(node_id) for node_id in self.replicas
        )
        replicas, removing, adding = tuple(self.replicas), tuple(self.removing), tuple(self.adding)
        if directories != tuple(_directories(partition).values()):
            changed["directories"] = directories
        if replicas != partition.replicas:
            changed["replicas"] = replicas
        if removing != partition.removing_replicas:
            changed["removing_replicas"] = removing
        if adding != partition.adding_replicas:
            changed["adding_replicas"] = adding


def _directories(partition: PartitionRegistration) -> dict[int, UUID | None]:
    """The directory of each replica, in order."""
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    return {node_id: known.get(node_id, MIGRATING) for node_id in partition.replicas}
