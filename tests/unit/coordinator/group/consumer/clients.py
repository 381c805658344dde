"""Members of both protocols, for tests of consumer groups."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.group.classic.members import JoinAnswer, MemberProtocol, SyncAnswer
from coordinator.group.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatAnswer, consumer_group_heartbeat
from coordinator.group.modern.group import LEFT, LEFT_FOR_A_WHILE
from protocol.consumer_protocol import deserialize_assignment
from protocol.coordinator_records.record_schema import Partitions
from tests.unit.coordinator.group.consumer.rig import ConsumerRig
from tests.unit.coordinator.group.rig import GROUP, Client

TELLS_NOTHING: dict[str, Any] = {
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": -1,
    "topics": None,
    "regex": None,
    "assignor": None,
    "owned": None,
}


def some(*indexes: int) -> dict[str, frozenset[int]]:
    """Partitions of topic `a`."""
    return {"a": frozenset(indexes)}


def sign_of_life(member_id: str, epoch: int) -> ConsumerHeartbeat:
    """A heartbeat that tells nothing new, of a client as below."""
    return ConsumerHeartbeat(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        client_id="client",
        client_host="/127.0.0.1",
        names_itself=True,
        **TELLS_NOTHING,
    )


class ConsumerClient:
    """A member of the consumer protocol. It tells what it owns with each heartbeat, unless the test has it tell less.

    `owned` is what it uses: what it was assigned last, and what it has not given up yet.
    """

    def __init__(
        self,
        rig: ConsumerRig,
        member_id: str,
        *topics: str,
        regex: str | None = None,
        instance: str | None = None,
        rebalance_ms: int = 60_000,
        assignor: str | None = None,
    ) -> None:
        self.rig = rig
        self.member_id = member_id
        self.topics = topics
        self.regex = regex
        self.instance = instance
        self.rebalance_ms = rebalance_ms
        self.assignor = assignor
        self.epoch = 0
        self.owned: Partitions = {}

    def send(self, **changes: Any) -> Future[ConsumerHeartbeatAnswer]:
        """A full request, with these changes; the answer goes nowhere."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            "rack_id": None,
            "rebalance_timeout_ms": self.rebalance_ms,
            "topics": None if self.regex is not None and not self.topics else self.topics,
            "regex": self.regex,
            "assignor": self.assignor,
            "owned": self.owned,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "names_itself": True,
        }
        request = ConsumerHeartbeat(**{**fields, **changes})
        return self.rig.runtime.write(0, lambda state: consumer_group_heartbeat(state.groups.modern, request))

    def hear(self, answer: ConsumerHeartbeatAnswer, *, gives_up: bool = True) -> None:
        """Do what the answer says, unless it takes its time to give partitions up."""
        self.epoch = answer.member_epoch
        if answer.assigned is not None:
            self.owned = answer.assigned if gives_up else union(self.owned, answer.assigned)

    def beat(self, *, gives_up: bool = True, **changes: Any) -> ConsumerHeartbeatAnswer:
        answer = self.send(**changes).result()
        self.hear(answer, gives_up=gives_up)
        return answer

    def beat_briefly(self) -> ConsumerHeartbeatAnswer:
        """It tells nothing new."""
        return self.beat(**{**TELLS_NOTHING, "instance_id": self.instance})

    def leave(self, *, for_a_while: bool = False) -> ConsumerHeartbeatAnswer:
        answer = self.send(member_epoch=LEFT_FOR_A_WHILE if for_a_while else LEFT).result()
        self.forget()
        return answer

    def forget(self) -> None:
        """It is not a member any more: it stops using its partitions."""
        self.epoch = 0
        self.owned = {}


class ClassicConsumer(Client):
    """A consumer of the classic protocol; a cooperative one keeps its partitions while it joins."""

    def __init__(
        self,
        rig: ConsumerRig,
        name: str,
        *topics: str,
        cooperative: bool = True,
        subscription_version: int = 1,
        **changes: Any,
    ) -> None:
        super().__init__(rig, name, **{"version": 9, **changes})
        self.topics: Sequence[str] = topics
        self.cooperative = cooperative
        self.subscription_version = subscription_version
        self.owned: dict[str, frozenset[int]] = {}
        self.metadata: dict[str, bytes] = {}
        """By protocol, where it is not the subscription."""
        self._names = [protocol.name for protocol in self.protocols]

    def join(self, reason: str | None = None) -> Future[JoinAnswer]:
        owned = self.owned if self.cooperative else {}
        usual = subscription(self.topics, owned, self.subscription_version)
        self.protocols = tuple(MemberProtocol(name, self.metadata.get(name, usual)) for name in self._names)
        return super().join(reason)

    def joined(self) -> JoinAnswer:
        """Into a consumer group, at once: with the member id that it is given first."""
        answer = self.join().result()
        if not answer.error.value:
            return answer
        assert self.member_id == answer.member_id
        return self.join().result()

    def synced(self) -> SyncAnswer:
        """Its assignment, which it obeys."""
        answer = self.sync().result()
        self.owned = partitions_in(answer.assignment)
        return answer

    def rejoins(self) -> dict[str, frozenset[int]]:
        """What it owns afterwards."""
        self.joined()
        self.synced()
        return self.owned


def partitions_in(assignment: bytes) -> dict[str, frozenset[int]]:
    if not assignment:
        return {}
    return {name: frozenset(indexes) for name, indexes in deserialize_assignment(assignment).partitions}


def subscription(
    topics: Sequence[str], owned: Mapping[str, frozenset[int]], version: int = 1, user_data: bytes | None = None
) -> bytes:
    """A ConsumerProtocolSubscription of version 0 or 1."""
    names = _array([_string(topic) for topic in topics])
    data = b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4, "big") + user_data
    return version.to_bytes(2, "big") + names + data + (_topic_partitions(owned) if version else b"")


def assignment(partitions: Mapping[str, frozenset[int]], user_data: bytes = b"") -> bytes:
    """A ConsumerProtocolAssignment of version 1."""
    return b"\0\1" + _topic_partitions(partitions) + len(user_data).to_bytes(4, "big") + user_data


def _topic_partitions(partitions: Mapping[str, frozenset[int]]) -> bytes:
    return _array(
        [
            _string(topic) + _array([index.to_bytes(4, "big") for index in sorted(indexes)])
            for topic, indexes in partitions.items()
        ]
    )


def _string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _array(items: Sequence[bytes]) -> bytes:
    return len(items).to_bytes(4, "big") + b"".join(items)


def union(some: Partitions, others: Partitions) -> Partitions:
    return {topic: some.get(topic, frozenset()) | others.get(topic, frozenset()) for topic in {**some, **others}}
