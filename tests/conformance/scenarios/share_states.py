"""The share coordinator (KIP-932): Initialize-, Read-, Write- and DeleteShareGroupState, and the summary.

Clients may send these, though brokers are who does. Each scenario writes and reads the state of its own topic.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from tests.conformance.runner import Talk, Topic, scenario

NO_TOPIC = "0" * 31 + "7"
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
Batch = tuple[int, int, int, int]
"""First offset, last offset, state, deliveries."""


class States:
    """The state of partition 0 of a topic in a group."""

    def __init__(self, t: Talk, topic: Topic, version: int = 0) -> None:
        self.t = t
        self.topic = topic
        self.version = version
        self.group_id = t.prefix + "shares"
        self.until_coordinated()

    def until_coordinated(self) -> None:
        topic_id = base64.urlsafe_b64encode(bytes.fromhex(self.topic.id)).decode().rstrip("=")
        body = {"key_type": 2, "coordinator_keys": [f"{self.group_id}:{topic_id}:0"]}

        def found() -> bool:
            answer = self.t.main.call("find_coordinator", 6, body)
            return bool(answer["coordinators"][0]["error_code"] == "0 NONE")

        self.t.until("the share coordinator is there", found)

    def _call(self, step: str, api: str, version: int, index: int, topic_id: str | None, **fields: Any) -> None:
        topics = [{"topic_id": topic_id or self.topic.id, "partitions": [{"partition": index} | fields]}]
        self.t.call(step, api, version, {"group_id": self.group_id, "topics": topics})

    def initialise(
        self, step: str, state_epoch: int = 1, start: int = 0, *, index: int = 0, topic: str | None = None
    ) -> None:
        fields = {"state_epoch": state_epoch, "start_offset": start}
        self._call(step, "initialize_share_group_state", 0, index, topic, **fields)

    def read(self, step: str, leader_epoch: int = 0, *, index: int = 0, topic: str | None = None) -> None:
        self._call(step, "read_share_group_state", 0, index, topic, leader_epoch=leader_epoch)

    def summary(self, step: str, leader_epoch: int = 0, *, index: int = 0, topic: str | None = None) -> None:
        version = self.version
        self._call(step, "read_share_group_state_summary", version, index, topic, leader_epoch=leader_epoch)

    def write(
        self,
        step: str,
        start: int,
        *batches: Batch,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        complete: int = 0,
        index: int = 0,
        topic: str | None = None,
    ) -> None:
        names: Sequence[str] = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        fields: dict[str, Any] = {
            "state_epoch": state_epoch,
            "leader_epoch": leader_epoch,
            "start_offset": start,
            "state_batches": [dict(zip(names, batch, strict=True)) for batch in batches],
        }
        if self.version:
            fields["delivery_complete_count"] = complete
        self._call(step, "write_share_group_state", self.version, index, topic, **fields)

    def delete(self, step: str, *, index: int = 0, topic: str | None = None) -> None:
        self._call(step, "delete_share_group_state", 0, index, topic)


@scenario("write_share_group_state", (0, 1))
def share_state_written(t: Talk, v: int) -> None:
    states = States(t, t.topic("topic", 2), v)
    states.write("before it is initialised", 0)
    states.read("nothing to read")
    states.summary("a summary of nothing")
    states.initialise("initialises")
    states.read("initialised")
    states.write("some", 0, (0, 4, AVAILABLE, 1), (5, 5, ACKNOWLEDGED, 1), (6, 9, ARCHIVED, 5), complete=5)
    states.read("some read")
    states.summary("their summary")
    states.write("the middle again", 0, (2, 7, AVAILABLE, 2))
    states.read("the higher count wins")
    states.write("the start moves", 3)
    states.read("what is below the start is gone")
    states.write("neighbours alike", 3, (10, 11, AVAILABLE, 2), (12, 13, AVAILABLE, 2))
    states.read("neighbours are one")
    states.write("the start goes back", 1)
    states.read("it went back")
    states.write("from -1", -1, (20, 21, AVAILABLE, 1))
    states.read("after -1")
    states.write("strange states", 1, (30, 31, 1, 1), (32, 33, 9, -3))
    states.read("strange states read")
    states.write("an older state epoch", 1, state_epoch=0)
    states.write("a newer state epoch", 1, state_epoch=5)
    states.write("a newer leader epoch", 1, leader_epoch=3)
    states.write("the leader epoch before", 1, leader_epoch=2)
    states.write("no topic of that id", 0, topic=NO_TOPIC)
    states.write("no partition of that number", 0, index=9)


@scenario("read_share_group_state", (0,))
def share_state_read(t: Talk, _: int) -> None:
    states = States(t, t.topic("topic", 2))
    states.initialise("initialises", start=4)
    states.read("leader epoch 0")
    states.read("leader epoch 3", 3)
    states.read("leader epoch 2", 2)
    states.write("leader epoch 2 writes", 5, leader_epoch=2)
    states.write("leader epoch 3 writes", 5, (5, 6, AVAILABLE, 1), leader_epoch=3)
    states.read("leader epoch 3 again", 3)
    states.summary("summary, leader epoch 1", 1)
    states.summary("summary, leader epoch 9", 9)
    states.read("leader epoch 3 a third time", 3)
    states.read("leader epoch -1", -1)
    states.read("another partition", index=1)
    states.read("no partition of that number", index=9)
    states.read("no topic of that id", topic=NO_TOPIC)


@scenario("read_share_group_state_summary", (0, 1))
def share_state_summarised(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    t.fill(topic, 0, t.batch(9))
    states = States(t, topic, v)
    for step, start in (("without a start", -1), ("from 4", 4)):
        states.initialise(step, start=start)
        states.summary(f"{step}: summary")
        states.summary(f"{step}: summary, leader epoch -1", -1)
        states.read(f"{step}: read")
    states.read("read by leader epoch 5", 5)
    states.summary("after it")
    states.write("written", 5, leader_epoch=5, complete=2)
    states.summary("after the write")
    states.write("no count", 5, leader_epoch=5, complete=-1)
    states.summary("after the write without a count")
    states.write("fewer", 5, leader_epoch=5, complete=1)
    states.summary("after fewer")
    states.write("the start goes back", 4, leader_epoch=5, complete=4)
    states.summary("after it went back")
    states.write("no start", -1, leader_epoch=5, complete=7)
    states.summary("after the write without a start")
    states.write("the start moves, no count", 6, leader_epoch=5, complete=-1)
    states.summary("after the move without a count")
    states.read("read by leader epoch 6", 6)
    states.summary("after that read")
    states.write("a count again", 6, leader_epoch=6, complete=1)
    states.initialise("anew without a start", 2, -1)
    states.summary("begun anew")
    states.initialise("anew from 5", 2, 5)
    states.read("leader epoch 5 again", 5)
    states.write("state epoch -1", 5, leader_epoch=5, state_epoch=-1)
    states.write("leader epoch -1", 5, leader_epoch=-1)
    states.write("partition -1", 5, index=-1)
    states.read("partition -1 read", index=-1)
    states.initialise("partition -1 initialised", index=-1)
    states.delete("partition -1 deleted", index=-1)


@scenario("initialize_share_group_state", (0,))
def share_state_initialised(t: Talk, _: int) -> None:
    states = States(t, t.topic("topic", 2))
    states.initialise("from 7", 3, 7)
    states.write("written", 8, (9, 9, ACKNOWLEDGED, 1), state_epoch=3)
    states.initialise("the same epoch", 3, 2)
    states.read("begins anew")
    states.initialise("an older epoch", 2, 5)
    states.initialise("a newer epoch", 4, -1)
    states.read("without a start")
    states.initialise("-1", -1, 0)
    states.initialise("no topic of that id", topic=NO_TOPIC)
    states.initialise("no partition of that number", index=9)
    states.delete("deletes")
    states.read("gone")
    states.summary("summary of what is gone")
    states.delete("deletes again")
    states.delete("another partition", index=1)
    states.delete("no topic of that id to delete", topic=NO_TOPIC)
    states.initialise("after the end", 1, 1)
    states.read("anew")


@scenario("find_coordinator", (5, 6))
def share_coordinators(t: Talk, v: int) -> None:
    topic = "AAAAAAAAAAAAAAAAAAAABQ"
    keys = [
        f"g:{topic}:0",
        f"g:{topic}:-1",
        f"g:{topic}:0:",
        f"g:{topic}:0::",
        f"a:b:{topic}:3:",
        f"g:{topic}==:0",
        f"g:{topic}:",
        f":{topic}:0",
        "g::0",
        "g",
        "",
        f"a:b:{topic}:3",
        "g:short:0",
    ]
    for key in keys:
        t.call(key or "nothing", "find_coordinator", v, {"key_type": 2, "coordinator_keys": [key]})
    t.call("several", "find_coordinator", v, {"key_type": 2, "coordinator_keys": keys[:6]})
