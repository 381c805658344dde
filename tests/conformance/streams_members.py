"""The members of a streams group (KIP-1071): processes of a Kafka Streams application, with their topology."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.conformance import schema
from tests.conformance.group_configs import configure_group
from tests.conformance.runner import Talk, Topic
from tests.conformance.wire import Frame, decode

LEAVES, LEAVES_FOR_A_WHILE = -1, -2
TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")
HEARTBEAT = "streams_group_heartbeat"


def subtopology(name: str, *sources: Topic | str, **fields: Any) -> dict[str, Any]:
    """A subtopology that reads these topics; `fields` are others of its fields."""
    return {"subtopology_id": name, "source_topics": [_name(topic) for topic in sources]} | fields


def topology(*subtopologies: dict[str, Any], epoch: int = 0) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": list(subtopologies)}


def internal(name: str, partitions: int = 0, **configs: str) -> dict[str, Any]:
    """An internal topic that the broker is to make. Config names have `_` for `.`."""
    wanted = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": wanted}


def tasks(subtopology_id: str, *indexes: int) -> dict[str, Any]:
    return {"subtopology_id": subtopology_id, "partitions": list(indexes)}


def _name(topic: Topic | str) -> str:
    return topic.name if isinstance(topic, Topic) else topic


class StreamsGroup:
    """One streams group, without an initial delay; its members speak `version` of both APIs."""

    def __init__(self, t: Talk, version: int, group: str = "streams", **configs: str) -> None:
        self.t = t
        self.version = version
        self.group_id = t.prefix + group
        self.configure(**{"streams_initial_rebalance_delay_ms": "0"} | configs)

    def __call__(self, member_id: str, topology: dict[str, Any], **fields: Any) -> StreamsMember:
        return StreamsMember(self, member_id, topology, fields)

    def configure(self, **configs: str) -> None:
        """Set configurations of the group; their names have `_` for `.`."""
        configure_group(self.t, self.group_id, configs)

    def sees(self, *topics: Topic) -> None:
        """Wait until the group coordinator knows the topics, by a member that leaves again."""
        scout = self("scout", topology(*(subtopology(str(index), topic) for index, topic in enumerate(topics))))

        def seen() -> bool:
            answer = scout.ask(**scout.joining)
            if answer["error_code"] != "0 NONE" or answer["status"]:
                return False
            return len({one["subtopology_id"] for one in answer["active_tasks"] or ()}) == len(topics)

        self.t.until("the coordinator knows the topics", seen)
        scout.ask(member_epoch=LEAVES)
        self.t.main.call("delete_groups", 2, {"groups_names": [self.group_id]})

    def described(self) -> dict[str, Any]:
        body = {"group_ids": [self.group_id]}
        group: dict[str, Any] = self.t.main.call("streams_group_describe", self.version, body)["groups"][0]
        for member in group["members"]:
            member["client_host"] = "<host>"
        return group

    def describe(self, step: str) -> None:
        self.t.keep(step, self.described())


class StreamsMember:
    """One member on a connection of its own; its id is the client's id and the process id too."""

    def __init__(self, group: StreamsGroup, member_id: str, topology: dict[str, Any], fields: dict[str, Any]) -> None:
        self.group = group
        self.t = group.t
        self.member_id = member_id
        self.topology = topology
        self.fields = fields
        self.epoch = 0
        self.owned: dict[str, list[dict[str, Any]]] = {kind: [] for kind in TASKS}
        self.wire = group.t.connect(8)

    @property
    def joining(self) -> dict[str, Any]:
        """What a request that joins says."""
        nothing: dict[str, Any] = {kind: [] for kind in TASKS}
        told = {"member_epoch": 0, "rebalance_timeout": 60_000, "topology": self.topology, "process_id": self.member_id}
        return nothing | told | self.fields

    def ask(self, **fields: Any) -> Any:
        """The answer, which is no step."""
        body = {"group_id": self.group.group_id, "member_id": self.member_id, "member_epoch": self.epoch} | fields
        version = self.group.version
        correlation_id = self.wire.send(schema.encode_request(HEARTBEAT, version, body), client_id=self.member_id)
        outcome = self.wire.receive()
        if not isinstance(outcome, Frame):
            self.wire = self.t.connect(8)
            return outcome
        answer = decode(outcome, HEARTBEAT, version, correlation_id)
        if answer.get("error_code") == "0 NONE":
            self.epoch = answer["member_epoch"]
            for kind in TASKS:
                if answer[kind] is not None:
                    self.owned[kind] = answer[kind]
        return answer

    def beat(self, step: str, **fields: Any) -> Any:
        """A heartbeat that says nothing new, but `fields`."""
        answer = self.ask(**fields)
        self.t.keep(step, answer)
        return answer

    def join(self, step: str, **fields: Any) -> Any:
        return self.beat(step, **self.joining | fields)

    def owns(self, step: str) -> Any:
        """A heartbeat that says which tasks the member has: all that it was assigned."""
        return self.beat(step, **self.owned)

    def leave(self, step: str, epoch: int = LEAVES) -> Any:
        kept = {name: value for name, value in self.fields.items() if name == "instance_id"}
        return self.beat(step, **{"member_epoch": epoch} | kept)

    def settle(self, step: str, has: Iterable[int] = ()) -> None:
        """Heartbeats until the answer has these status codes and no others; it is kept."""
        wanted, last = sorted(has), [None]

        def settled() -> bool:
            last[0] = answer = self.ask(**self.owned)
            return sorted(one["status_code"] for one in answer["status"] or ()) == wanted

        self.t.until(step, settled)
        self.t.keep(step, last[0])
