"""The members of a share group (KIP-932): they heartbeat, fetch and acknowledge, and choose their own ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance import schema
from tests.conformance.group_configs import configure_group
from tests.conformance.runner import Talk, Topic
from tests.conformance.wire import Frame, decode

LEAVES = -1
CLOSES = -1
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GAP = 0
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1

Acknowledgement = tuple[int, int, int] | tuple[int, int, Sequence[int]]
"""First offset, last offset, and the type of all or the types of each."""


def batches(acknowledgements: Sequence[Acknowledgement]) -> list[dict[str, Any]]:
    """Acknowledgements as requests have them."""
    return [
        {
            "first_offset": first,
            "last_offset": last,
            "acknowledge_types": [types] if isinstance(types, int) else list(types),
        }
        for first, last, types in acknowledgements
    ]


class ShareGroup:
    """One share group; its fetches and acknowledgements speak `version`."""

    def __init__(self, t: Talk, version: int = 2, group: str = "shares") -> None:
        self.t = t
        self.version = version
        self.group_id = t.prefix + group

    def __call__(self, member_id: str, *topics: Topic | str) -> ShareConsumer:
        return ShareConsumer(self, member_id, [topic.name if isinstance(topic, Topic) else topic for topic in topics])

    def ready(self, *topics: Topic) -> None:
        """Have the share partitions of the topics initialised."""
        self.assigned(dict.fromkeys(topics, 1))

    def assigned(self, topics: Mapping[Topic, int]) -> None:
        """Have so many share partitions of each topic, at least, initialised: ask as a member that leaves again."""
        scout = self("scout", *topics)

        def assigned() -> bool:
            answer = scout.ask(**scout.subscription)
            there = (answer.get("assignment") or {}).get("topic_partitions", [])
            counts = {one["topic_id"]: len(one["partitions"]) for one in there}
            return all(counts.get(topic.id, 0) >= count for topic, count in topics.items())

        self.t.until("the share partitions are initialised", assigned)
        scout.ask(member_epoch=LEAVES)

    def configure(self, **configs: str) -> None:
        """Set configurations of the group; their names have `_` for `.`."""
        configure_group(self.t, self.group_id, configs)

    def describe(self, step: str) -> None:
        body = {"group_ids": [self.group_id]}
        group = self.t.main.call("share_group_describe", 1, body)["groups"][0]
        for member in group["members"]:
            member["client_host"] = "<host>"
        self.t.keep(step, group)

    def offsets(self, step: str, topic: Topic, *indexes: int, version: int = 1) -> None:
        """The start offset and the lag of these partitions."""
        topics = [{"topic_name": topic.name, "partitions": list(indexes)}]
        body = {"groups": [{"group_id": self.group_id, "topics": topics}]}
        self.t.call(step, "describe_share_group_offsets", version, body)

    def until_start(self, topic: Topic, offset: int, index: int = 0) -> None:
        """Wait until the start offset has been written down."""
        body = {"groups": [{"group_id": self.group_id, "topics": [{"topic_name": topic.name, "partitions": [index]}]}]}

        def there() -> bool:
            (group,) = self.t.main.call("describe_share_group_offsets", 1, body)["groups"]
            return bool(group["topics"][0]["partitions"][0]["start_offset"] == offset)

        self.t.until(f"start offset {offset}", there)


class ShareConsumer:
    """One member on a connection of its own, with its share session."""

    def __init__(self, group: ShareGroup, member_id: str, topics: list[str]) -> None:
        self.group = group
        self.t = group.t
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0
        self.session_epoch = 0
        self._begun = 0
        self.wire = group.t.connect(8)

    # ---- heartbeats

    @property
    def subscription(self) -> dict[str, Any]:
        return {"subscribed_topic_names": self.topics}

    def ask(self, **fields: Any) -> Any:
        """The answer to a heartbeat, which is no step."""
        body = {"group_id": self.group.group_id, "member_id": self.member_id, "member_epoch": self.epoch} | fields
        answer = self._call("share_group_heartbeat", 1, body)
        if isinstance(answer, dict) and answer["error_code"] == "0 NONE":
            self.epoch = answer["member_epoch"]
        return answer

    def beat(self, step: str, **fields: Any) -> Any:
        answer = self.ask(**fields)
        self.t.keep(step, answer)
        return answer

    def join(self, step: str, **fields: Any) -> Any:
        return self.beat(step, **{"member_epoch": 0} | self.subscription | fields)

    def leave(self, step: str) -> Any:
        return self.beat(step, member_epoch=LEAVES)

    def settle(self, step: str) -> None:
        """Heartbeats until there is an assignment that is not empty; that answer is kept."""
        last: list[Any] = []

        def assigned() -> bool:
            last[:] = [self.ask()]
            return bool((last[0].get("assignment") or {}).get("topic_partitions"))

        self.t.until(step, assigned)
        self.t.keep(step, last[0])

    # ---- records

    def fetch(self, step: str, *topics: tuple[Topic | str, dict[int, Sequence[Acknowledgement]]], **fields: Any) -> Any:
        """A ShareFetch; for each topic, the partitions that are added and what is acknowledged of them."""
        answer = self.take(*topics, **fields)
        self.t.keep(step, answer)
        return answer

    def take(self, *topics: tuple[Topic | str, dict[int, Sequence[Acknowledgement]]], **fields: Any) -> Any:
        """The answer to a ShareFetch, which is no step."""
        return self._in_session("share_fetch", self._fetch_body(topics, fields))

    def begin(self, **fields: Any) -> None:
        """Send a ShareFetch of the session's partitions, whose answer `end` takes."""
        body = self._fetch_body((), fields)
        self._begun = self.wire.send(
            schema.encode_request("share_fetch", self.group.version, body), client_id=self.member_id[:36]
        )
        self.session_epoch += 1

    def end(self, step: str) -> None:
        """Keep the answer to what was begun."""
        outcome = self.wire.receive()
        assert isinstance(outcome, Frame), outcome
        self.t.keep(step, decode(outcome, "share_fetch", self.group.version, self._begun))

    def _fetch_body(
        self, topics: Sequence[tuple[Topic | str, dict[int, Sequence[Acknowledgement]]]], fields: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "max_wait": 300,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **self._session(topics),
        } | fields

    def get(self, step: str, topic: Topic, index: int = 0, **fields: Any) -> Any:
        """Fetches until records come, as the first one may only load the share partition; that answer is kept."""
        asked = [(topic, {index: ()})] if not self.session_epoch else []
        last: list[Any] = []

        def come() -> bool:
            last[:] = [self.take(*(asked if not self.session_epoch else ()), **fields)]
            found = last[0].get("responses", []) if isinstance(last[0], dict) else []
            return any(part["acquired_records"] for one in found for part in one["partitions"])

        self.t.until(step, come)
        self.t.keep(step, last[0])
        return last[0]

    def acknowledge(
        self, step: str, *topics: tuple[Topic | str, dict[int, Sequence[Acknowledgement]]], **fields: Any
    ) -> Any:
        answer = self._in_session("share_acknowledge", self._session(topics) | fields)
        self.t.keep(step, answer)
        return answer

    def close(self, step: str) -> Any:
        answer = self._in_session("share_acknowledge", self._session(()) | {"share_session_epoch": CLOSES})
        self.t.keep(step, answer)
        return answer

    def _session(self, topics: Sequence[tuple[Topic | str, dict[int, Sequence[Acknowledgement]]]]) -> dict[str, Any]:
        return {
            "group_id": self.group.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.session_epoch,
            "topics": [
                {
                    "topic_id": topic.id if isinstance(topic, Topic) else topic,
                    "partitions": [
                        {"partition_index": index, "acknowledgement_batches": batches(acknowledged)}
                        for index, acknowledged in places.items()
                    ],
                }
                for topic, places in topics
            ],
        }

    def _in_session(self, api: str, body: dict[str, Any]) -> Any:
        answer = self._call(api, self.group.version, body)
        if isinstance(answer, dict) and answer.get("error_code") == "0 NONE":
            self.session_epoch = 0 if body["share_session_epoch"] == CLOSES else body["share_session_epoch"] + 1
        return answer

    def _call(self, api: str, version: int, body: dict[str, Any]) -> Any:
        correlation_id = self.wire.send(schema.encode_request(api, version, body), client_id=self.member_id[:36])
        outcome = self.wire.receive()
        if not isinstance(outcome, Frame):
            self.wire = self.t.connect(8)
            return outcome
        return decode(outcome, api, version, correlation_id)
