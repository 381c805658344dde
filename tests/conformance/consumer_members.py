"""The members of a consumer group (KIP-848), who speak ConsumerGroupHeartbeat and choose their own ids."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator.runtime.runtime import partition_for
from tests.conformance import schema
from tests.conformance.group_members import Member, Party, assignment, subscription
from tests.conformance.runner import Talk, Topic
from tests.conformance.wire import Closed, Frame, Silent, decode

OFFSETS_PARTITIONS = 50
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
Place = tuple[Topic, Iterable[int]]


def partitions(*places: Place) -> list[dict[str, Any]]:
    """As requests have them."""
    return [{"topic_id": topic.id, "partitions": list(indexes)} for topic, indexes in places]


class Group:
    """One group, and names for the ids that the broker gives out. Its members speak `version` of both APIs."""

    def __init__(self, t: Talk, version: int, group: str = "group") -> None:
        self.t = t
        self.version = version
        self.group_id = t.prefix + group
        self.names: dict[str, str] = {}
        self._seen: set[Topic] = set()
        t.until("the coordinator is there", self._coordinator)

    def _coordinator(self) -> bool:
        answer = self.t.main.call("find_coordinator", 1, {"key": self.group_id, "key_type": 0})
        found = not isinstance(answer, Closed | Silent) and answer["error_code"] == "0 NONE"
        return found and self.described()["error_code"] in ("0 NONE", "69 GROUP_ID_NOT_FOUND")

    def sees(self, *topics: Topic) -> None:
        """Wait until Kafka's coordinator of this group, one of many, knows the topics: ask in another's name."""
        partition = partition_for(self.group_id, OFFSETS_PARTITIONS)
        names = (f"scout {self.group_id} {number}" for number in itertools.count())
        scout = next(name for name in names if partition_for(name, OFFSETS_PARTITIONS) == partition)
        body = {"group_id": scout, "member_id": "scout", "member_epoch": 0, "rebalance_timeout": 60_000}
        body |= {"topic_partitions": [], "subscribed_topic_names": [topic.name for topic in topics]}
        ids = {topic.id for topic in topics}

        def seen() -> bool:
            assigned = self.t.main.call("consumer_group_heartbeat", 1, body)["assignment"]["topic_partitions"]
            return {one["topic_id"] for one in assigned} == ids

        self.t.until("the coordinator knows the topics", seen)
        self.t.main.call("consumer_group_heartbeat", 1, body | {"member_epoch": LEAVES})
        self.t.main.call("delete_groups", 2, {"groups_names": [scout]})

    def __call__(self, member_id: str, *topics: Topic | str, **fields: Any) -> Consumer:
        """Who subscribes to these topics, unless `fields` say otherwise."""
        if new := {topic for topic in topics if isinstance(topic, Topic)} - self._seen:
            self.sees(*new)
            self._seen |= new
        return Consumer(
            self, member_id, [topic.name if isinstance(topic, Topic) else topic for topic in topics], fields
        )

    def readable(self, value: Any) -> Any:
        """With names for ids, and in one order: most lists are in that of a hash map."""
        if isinstance(value, dict):
            return {key: self.readable(item) for key, item in value.items()}
        if isinstance(value, list):
            items = [self.readable(self.t.normalise(item) if isinstance(item, str) else item) for item in value]
            return sorted(items, key=lambda item: item if isinstance(item, int) else _sorting(self.t, item))
        if isinstance(value, str):
            for given, name in self.names.items():
                value = value.replace(given, name)
        return value

    def described(self) -> dict[str, Any]:
        body = {"group_ids": [self.group_id]}
        answer: dict[str, Any] = self.t.main.call("consumer_group_describe", self.version, body)["groups"][0]
        return answer

    def describe(self, step: str) -> None:
        self.t.keep(step, self.readable(self.described()))


def _sorting(t: Talk, item: Any) -> str:
    return json.dumps(t.normalise(item))


class Consumer:
    """One member on a connection of its own; its id is the client's id too."""

    def __init__(self, group: Group, member_id: str, topics: list[str], fields: dict[str, Any]) -> None:
        self.group = group
        self.name = member_id
        self.member_id = member_id
        self.topics = topics
        self.fields = fields
        self.epoch = 0
        self.assigned: list[dict[str, Any]] = []
        self.wire = group.t.connect(5)

    # ---- requests

    def ask(self, **fields: Any) -> Any:
        """The answer, which is no step; nothing is said but who asks, in which epoch, and `fields`."""
        body = {"group_id": self.group.group_id, "member_id": self.member_id, "member_epoch": self.epoch}
        version = self.group.version
        request = schema.encode_request("consumer_group_heartbeat", version, body | {"rebalance_timeout": -1} | fields)
        correlation_id = self.wire.send(request, client_id=self.name)
        outcome = self.wire.receive()
        if not isinstance(outcome, Frame):
            return outcome
        answer = decode(outcome, "consumer_group_heartbeat", version, correlation_id)
        if answer.get("error_code") == "0 NONE" and fields.get("member_id") in (None, self.member_id):
            self._took(answer)
        return answer

    def _took(self, answer: dict[str, Any]) -> None:
        if not self.member_id:
            self.member_id = answer["member_id"]
            self.group.names[self.member_id] = f"<{self.name or 'no name'}>"
        self.epoch = answer["member_epoch"]
        if answer["assignment"] is not None:
            self.assigned = answer["assignment"]["topic_partitions"]

    def beat(self, step: str, **fields: Any) -> Any:
        """A heartbeat that says nothing new, but `fields`."""
        answer = self.ask(**fields)
        self.group.t.keep(step, self.group.readable(answer))
        return answer

    @property
    def subscription(self) -> dict[str, Any]:
        return {
            "subscribed_topic_names": self.topics,
            "rebalance_timeout": 60_000,
            "server_assignor": None,
        } | self.fields

    def join(self, step: str, **fields: Any) -> Any:
        return self.beat(step, **{"member_epoch": 0, "topic_partitions": []} | self.subscription | fields)

    def full(self, step: str, **fields: Any) -> Any:
        """A heartbeat that says everything, as after a request that failed."""
        return self.beat(step, **{"topic_partitions": self.assigned} | self.subscription | fields)

    def owns(self, step: str, *places: Place) -> Any:
        """A heartbeat that says what the member has: all that it was assigned, unless told otherwise."""
        return self.beat(step, topic_partitions=partitions(*places) if places else self.assigned)

    def leave(self, step: str, epoch: int = LEAVES, **fields: Any) -> Any:
        kept = {name: value for name, value in self.fields.items() if name == "instance_id"}
        return self.beat(step, **{"member_epoch": epoch} | kept | fields)

    def settle(self, step: str, *, changed: bool = True) -> None:
        """Heartbeats until the group has noticed what happened outside of it; the answer that tells is kept."""
        last: list[Any] = []

        def noticed() -> bool:
            last[:] = [self.ask()]
            return isinstance(last[0], dict) and (last[0]["assignment"] is not None) == changed

        self.group.t.until(step, noticed)
        self.group.t.keep(step, self.group.readable(last[0]))


class Classic(Party):
    """Members of the same group that speak the classic protocol, and really assign and own partitions."""

    def __init__(self, group: Group, version: int = 9) -> None:
        super().__init__(group.t, version, group.group_id.removeprefix(group.t.prefix))
        self.group = group
        self.names = group.names

    def until_seen(self, member: Member) -> None:
        """In a group of either kind."""
        known = {member.name, member.instance} - {None}

        def seen() -> bool:
            members = [*self.described()["members"], *self.group.described()["members"]]
            return any({m["client_id"], m.get("group_instance_id"), m.get("instance_id")} & known for m in members)

        self.t.until(f"member {member.name}", seen)

    def leads(self, name: str, topic: Topic, count: int, instance: str | None = None) -> Member:
        """A member that is alone, and assigned itself so many partitions of the topic."""
        member = self(name, instance, protocols=wants(topic))
        member.join(f"{name} joins")
        share = {"member_id": member.member_id, "assignment": assignment({topic.name: range(count)})}
        member.sync(f"{name} assigns", assignments=[share])
        return member


def wants(*topics: Topic, owned: Mapping[str, Sequence[int]] | None = None) -> list[dict[str, Any]]:
    """The protocols of a JoinGroup."""
    return [{"name": "range", "metadata": subscription(*(topic.name for topic in topics), owned=owned)}]
