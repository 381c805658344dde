"""The members of a classic group, who speak JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance import schema
from tests.conformance.runner import Talk
from tests.conformance.wire import Closed, Frame, Silent, decode

MEMBER_ID = re.compile(r"([\w.~-]*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GIVEN = re.compile(rf"{MEMBER_ID.pattern}|[\w-]{{22}}")
"""Ids that a broker made up, the second kind in a consumer group."""
SHORT = 0.4


def subscription(*topics: str, owned: Mapping[str, Sequence[int]] | None = None) -> bytes:
    """ConsumerProtocolSubscription, of version 1 where it tells what is owned, else 0; no user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    subscribed = len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"
    return b"\0\0" + subscribed if owned is None else b"\0\1" + subscribed + _shares(owned)


def assignment(shares: Mapping[str, Sequence[int]]) -> bytes:
    """ConsumerProtocolAssignment of version 0; no user data."""
    return b"\0\0" + _shares(shares) + b"\xff\xff\xff\xff"


def _shares(shares: Mapping[str, Sequence[int]]) -> bytes:
    out = len(shares).to_bytes(4, "big")
    for topic, indexes in shares.items():
        out += len(topic).to_bytes(2, "big") + topic.encode()
        out += len(indexes).to_bytes(4, "big") + b"".join(index.to_bytes(4, "big") for index in indexes)
    return out


class Party:
    """The members of one group, and names for their ids.

    They speak `version` of JoinGroup, and of the other APIs that or the newest.
    """

    def __init__(self, t: Talk, version: int, group: str = "group") -> None:
        self.t = t
        self.version = version
        self.versions = {
            "join_group": version,
            "sync_group": min(version, 5),
            "heartbeat": min(version, 4),
            "leave_group": min(version, 5),
        }
        self.group_id = t.prefix + group
        self.names: dict[str, str] = {}
        t.until("the coordinator is there", self._coordinator)

    def _coordinator(self) -> bool:
        answer = self.t.main.call("find_coordinator", 1, {"key": self.group_id, "key_type": 0})
        return not isinstance(answer, Closed | Silent) and answer["error_code"][0] == "0"

    def readable(self, value: Any) -> Any:
        """Bytes as text, and member ids as <name of the member>."""
        if isinstance(value, dict):
            return {key: self.readable(item) for key, item in value.items()}
        if isinstance(value, list):
            items = [self.readable(item) for item in value]
            return sorted(items, key=str)
        if isinstance(value, bytes):
            return value.decode("latin-1")
        if isinstance(value, str):
            return self.names.get(value) or MEMBER_ID.sub(
                lambda match: self.names.get(match[0], f"<{match[1]} ?>"), value
            )
        return value

    def described(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.t.main.call("describe_groups", 5, {"groups": [self.group_id]})["groups"][0]
        return answer

    def describe(self, step: str) -> None:
        self.t.keep(step, self.readable(self.described()))

    def until_members(self, count: int) -> None:
        """Requests of several connections are handled in any order: waits until the group has so many members."""
        self.t.until(f"{count} members", lambda: len(self.described()["members"]) == count)

    def until_seen(self, member: Member) -> None:
        """Kafka answers a JoinGroup before the group is committed, and describes what is committed alone."""
        known = {member.name, member.instance} - {None}
        self.t.until(
            f"member {member.name}",
            lambda: any({m["client_id"], m["group_instance_id"]} & known for m in self.described()["members"]),
        )

    def __call__(self, name: str, instance: str | None = None, **fields: Any) -> Member:
        return Member(self, name, instance, **fields)


class Member:
    """One member on a connection of its own."""

    def __init__(self, party: Party, name: str, instance: str | None = None, **fields: Any) -> None:
        self.party = party
        self.name = name
        self.instance = instance
        self.fields = fields
        self.member_id = ""
        self.generation = -1
        self.wire = party.t.connect(5)
        self._sent: tuple[str, int, int] = ("", 0, 0)

    def send(self, api: str, body: dict[str, Any]) -> None:
        version = self.party.versions[api]
        request = schema.encode_request(api, version, {"group_id": self.party.group_id} | body)
        self._sent = (api, version, self.wire.send(request, client_id=self.name))

    def receive(self, step: str, timeout: float = 5) -> Any:
        """Keep the next answer, or the fact that none comes."""
        answer = self.answered(timeout)
        self.party.t.keep(step, self.party.readable(answer))
        return answer if isinstance(answer, dict) else {}

    def answered(self, timeout: float = 5) -> Any:
        """The next answer, which is no step."""
        outcome = self.wire.receive(timeout)
        if not isinstance(outcome, Frame):
            return outcome
        api = self._sent[0]
        answer = decode(outcome, *self._sent)
        if api == "join_group" and answer["member_id"]:
            if answer["error_code"].split()[0] in ("0", "79"):
                self.member_id = answer["member_id"]
                self.generation = answer["generation_id"]
            if GIVEN.fullmatch(answer["member_id"]):
                self.party.names.setdefault(answer["member_id"], f"<{self.name}>")
        return answer

    def waits(self, step: str) -> None:
        """Keep the fact that no answer comes for a while."""
        outcome = self.wire.receive(SHORT)
        self.party.t.keep(step, "waits" if isinstance(outcome, Silent) else "does not wait")

    def send_join(self, **fields: Any) -> None:
        protocols = self.fields.get("protocols", ("range",))
        body = {
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "session_timeout": 60_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [
                one if isinstance(one, dict) else {"name": one, "metadata": subscription("topic")} for one in protocols
            ],
        }
        self.send("join_group", body | {k: v for k, v in self.fields.items() if k != "protocols"} | fields)

    def enter(self, step: str, **fields: Any) -> None:
        """Send the JoinGroup that waits for the others, after the one that is given a member id if there must be one.

        Returns when it waits.
        """
        if self.party.version >= 4 and not self.member_id and self.instance is None:
            self.send_join(**fields)
            self.receive(f"{step}: id")
        self.send_join(**fields)
        self.party.until_seen(self)

    def join(self, step: str, **fields: Any) -> Any:
        """Joins, after it was given a member id if there must be one, and is answered."""
        if self.party.version >= 4 and not self.member_id and self.instance is None:
            self.send_join(**fields)
            self.receive(f"{step}: id")
        self.send_join(**fields)
        answer = self.receive(step)
        if answer.get("error_code", "").startswith("0 "):
            self.party.until_seen(self)
        return answer

    def send_sync(self, *members: Member, **fields: Any) -> None:
        """As the leader, with a share for each of `members`; as a follower, with none."""
        body = {
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": m.member_id, "assignment": b"share of " + m.name.encode()} for m in members],
        }
        self.send("sync_group", body | fields)

    def sync(self, step: str, *members: Member, **fields: Any) -> None:
        self.send_sync(*members, **fields)
        self.receive(step)

    def heartbeat(self, step: str, **fields: Any) -> None:
        body = {
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
        self.send("heartbeat", body | fields)
        self.receive(step)

    def leave(self, step: str, *members: dict[str, Any]) -> None:
        own = {"member_id": self.member_id, "group_instance_id": self.instance}
        self.send("leave_group", {"member_id": self.member_id, "members": list(members) or [own]})
        self.receive(step)
