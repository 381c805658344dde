"""One of the two brokers that `fuzz` asks: what it gave out so far, and its answers without what differs anyway."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance import schema
from tests.conformance.contract import in_one_order
from tests.conformance.group_members import GIVEN, MEMBER_ID, assignment, subscription
from tests.conformance.runner import Talk, Topic
from tests.conformance.transactor import described
from tests.conformance.wire import Closed, Frame, Outcome, Silent, Wire, decode
from tools.fuzz import consumers, share_consumers, streams_members
from tools.fuzz.symbols import LONGEST, TOPICS, Batch, Held, Named, Shares, Subscribed, Time

WAITS = {"join_group": 0.7, "sync_group": 0.7}
"""How long an answer that may rightly wait for others is waited for, in seconds; all others 5."""

PROPAGATED = ("create_topics", "delete_topics", "create_partitions", "alter_configs", "incremental_alter_configs",
              "delete_records")  # fmt: skip
"""What Kafka's controller has done when it answers, and its broker shortly after."""
GROUPS = ("join_group", "sync_group", "leave_group", "heartbeat", "delete_groups", consumers.API, *share_consumers.APIS,
          *streams_members.APIS)  # fmt: skip
TRANSACTIONS = ("init_producer_id", "end_txn", "add_partitions_to_txn", "add_offsets_to_txn", "produce",
                "txn_offset_commit", "write_txn_markers")  # fmt: skip

ASSIGNING = (*consumers.TELL_OF_SHARES, *streams_members.TELL_OF_TASKS)
WORDS = ("metadata", "assignment", "member_metadata", "member_assignment")
OF_ALL = ("list_groups", "list_transactions", "list_config_resources")
"""Those that tell of everything there is; so do others that are asked for no topic."""
NAMES = ("group_id", "transactional_id", "topic_name", "resource_name", "name")


class Side:
    def __init__(self, host: str, port: int, prefix: str, t0_ms: int, apis: Sequence[str]) -> None:
        self.t = Talk(host, port, prefix=prefix, t0=t0_ms)
        self._apis = apis
        self._topics = dict(TOPICS)
        if consumers.API in apis:
            self._topics[consumers.TOPIC] = consumers.PARTITIONS
        self._aside = self.t.connect(10)
        self.held: dict[tuple[str, str], Any] = {}
        self._members: dict[str, str] = {}
        self._of_members: dict[str, Wire] = {}
        self._late: list[tuple[Wire, str, int, int, str]] = []

    def prepare(self) -> None:
        """The topics with a few records in them, and one idempotent producer."""
        for key_type, name in ((0, "g1"), (1, "tx1")):
            body = {"key": self.t.prefix + name, "key_type": key_type}

            def found(body: dict[str, Any] = body) -> bool:
                return bool(self.t.main.call("find_coordinator", 3, body)["error_code"][0] == "0")

            self.t.until("coordinators", found)
        made: dict[str, Topic] = {}
        for name, partitions in self._topics.items():
            made[name] = topic = self.t.topic(name, partitions)
            self.held["topic_id", name] = topic.id
            self.t.fill(topic, 0, self.t.batch(3), self.t.batch(1))
        for name in ("c", "d", "missing", LONGEST):
            self.t.name(name)
        for name in ("idem", "tx1"):
            self.init_producer(name)
        started = {name: made[name] for name in TOPICS}
        if share_consumers.HEARTBEAT in self._apis:
            share_consumers.prepare(self.t, started)
        if streams_members.HEARTBEAT in self._apis:
            streams_members.prepare(self.t, started)

    def init_producer(self, name: str) -> None:
        transactional_id = None if name == "idem" else self.t.prefix + name
        body = {"transactional_id": transactional_id, "transaction_timeout": 60_000, "producer_id": -1}
        body["producer_epoch"] = -1
        self.t.until("a producer", lambda: self._took_producer(name, self.t.main.call("init_producer_id", 4, body)))

    # ---- requests

    def resolve(self, value: Any) -> Any:
        """The body with this broker's ids and this run's names in it."""
        match value:
            case dict():
                return {k: self.resolve(v) for k, v in value.items()}
            case list():
                return [self.resolve(v) for v in value]
            case Held(kind, name, default, plus):
                held = self.held.get((kind, name), default)
                return held + plus if plus else held
            case Named(short):
                return self.t.prefix + short
            case Time(after):
                return self.t.t0 + after
            case Subscribed(topic, owned):
                name = self.t.prefix + topic
                return subscription(name, owned=None if owned is None else {name: owned})
            case Shares(topic, partitions):
                return assignment({self.t.prefix + topic: partitions})
            case Batch(records, fields, flip, cut):
                data = bytearray(self.t.batch(records, **self.resolve(fields)))
                if flip is not None:
                    data[int(flip * len(data))] ^= 1 << int(flip * 1000) % 8
                return bytes(data if cut is None else data[: int(cut * len(data))])
        return value

    def ask(self, api: str, version: int, body: dict[str, Any], damage: Any = None) -> Any:
        """The answer, readable and without this broker's own; also those that came late to earlier requests."""
        resolved = self.resolve(body)
        wire = self._wire(api, resolved)
        request = schema.encode_request(api, version, resolved)
        flexible = schema.request_header_is_flexible(api, version)
        if damage is not None:
            request, flexible = damage(request, flexible)
        correlation_id = wire.send(request, flexible=flexible)
        silent_anyway = api == "produce" and resolved.get("acks") == 0
        outcome = wire.receive(0.3 if silent_anyway else WAITS.get(api, 5.0))
        answer = self._read(outcome, wire, api, version, correlation_id, body)
        self._settle(api, resolved, answer)
        late = [] if api not in GROUPS else self._came_late()
        return {"answer": answer, "late": late} if late else answer

    def _read(self, outcome: Outcome, wire: Wire, api: str, version: int, correlation_id: int, body: Any) -> Any:
        if not isinstance(outcome, Frame):
            if isinstance(outcome, Silent):
                self._late.append((wire, api, version, correlation_id, body))
            self._forget(wire)
            return "closed" if isinstance(outcome, Closed) else "silence"
        answer = decode(outcome, api, version, correlation_id)
        self._learn(api, body, answer)
        if api in OF_ALL or not body.get("topics", True):
            answer = self._own(answer)
        if api == "describe_transactions" and "transaction_states" in answer:
            answer["transaction_states"] = described(answer)
        return self.plain(answer, api)

    def _wire(self, api: str, body: Mapping[str, Any]) -> Wire:
        """Members of share groups have connections of their own."""
        member = body.get("member_id")
        if api not in share_consumers.APIS or member not in share_consumers.MEMBERS:
            return self.t.main
        if member not in self._of_members:
            self._of_members[member] = self.t.connect(10)
        return self._of_members[member]

    def _forget(self, wire: Wire) -> None:
        """Use another connection from now on."""
        self._of_members = {member: own for member, own in self._of_members.items() if own is not wire}
        if wire is self.t._main:
            self.t._main = None

    def _came_late(self) -> list[Any]:
        out = []
        for waiting in list(self._late):
            wire, api, version, correlation_id, body = waiting
            outcome = wire.receive(0.02)
            if not isinstance(outcome, Silent):
                self._late.remove(waiting)
                out.append([api, self._read(outcome, wire, api, version, correlation_id, body)])
        return sorted(out, key=str)

    def end(self) -> None:
        """Delete what can be deleted, and close."""
        groups = [self.t.prefix + name for name in ("g1", "g2", *share_consumers.GROUPS, *streams_members.GROUPS)]
        with contextlib.suppress(OSError):
            self._aside.call("delete_groups", 2, {"groups_names": groups})
        self.t.end()

    def readable(self, value: Any) -> Any:
        """A body to print: as sent, bytes by their length and beginning."""
        match value:
            case dict():
                return {k: self.readable(v) for k, v in value.items()}
            case list():
                return [self.readable(v) for v in value]
            case Batch():
                return f"{value.records} records {self.readable(value.fields)} flip {value.flip} cut {value.cut}"
            case Held(kind, name):
                return f"<{kind} {name}: {self.resolve(value)}>"
            case Named(short):
                return f"~{short}"
        return value

    # ---- what answers give

    def _learn(self, api: str, body: dict[str, Any], answer: Mapping[str, Any]) -> None:
        error = str(answer.get("error_code", "")).split(" ")[0]
        match api:
            case "init_producer_id" | "end_txn":
                asked = body.get("transactional_id")
                self._took_producer(asked.short if isinstance(asked, Named) else "idem", answer)
            case "join_group" if error in ("0", "79") and answer.get("member_id"):
                group = body["group_id"].short if isinstance(body["group_id"], Named) else "?"
                slot = body["member_id"].name if isinstance(body["member_id"], Held) else f"{group}/0"
                if answer["member_id"] not in self._members:
                    self._members[answer["member_id"]] = f"<member {len(self._members) + 1}>"
                self.held["member", slot] = answer["member_id"]
                if error == "0":
                    self.held["generation", group] = self.held["generation", slot] = answer["generation_id"]
                    self.held["protocol_name", group] = answer["protocol_name"]
            case consumers.API:
                self._learn_of_consumer(self.resolve(body), error, answer)
            case _ if api in share_consumers.APIS:
                sent = self.resolve(body)
                share_consumers.learn(self.held, api, self._slot(sent), sent, answer)
            case streams_members.HEARTBEAT:
                streams_members.learn(self.held, self._slot(self.resolve(body)), answer)
            case "fetch" if error == "0" and isinstance(body.get("session_id"), Held):
                name = body["session_id"].name
                if answer.get("session_id"):
                    epoch = self.resolve(body["session_epoch"])
                    self.held["session_id", name] = answer["session_id"]
                    self.held["session_epoch", name] = epoch + 1
            case "fetch" if isinstance(body.get("session_id"), Held):
                self.held.pop(("session_id", body["session_id"].name), None)
                self.held.pop(("session_epoch", body["session_id"].name), None)

    def _learn_of_consumer(self, body: Mapping[str, Any], error: str, answer: Mapping[str, Any]) -> None:
        slot = self._slot(body)
        if error == "0" and answer["member_epoch"] >= 0:
            self.held["epoch", slot] = answer["member_epoch"]
            if answer["assignment"] is not None:
                self.held["assigned", slot] = answer["assignment"]["topic_partitions"]
        elif error in ("0", *consumers.REJOINS):
            self.held.pop(("epoch", slot), None)

    def _slot(self, body: Mapping[str, Any]) -> str:
        """Under which name what a member has been given is held."""
        return f"{str(body['group_id']).removeprefix(self.t.prefix)}/{body['member_id']}"

    def _took_producer(self, name: str, answer: Mapping[str, Any]) -> bool:
        if answer["error_code"] != "0 NONE" or answer.get("producer_id", -1) < 0:
            return False
        self.held["producer_id", name], self.held["producer_epoch", name] = (
            answer["producer_id"],
            answer["producer_epoch"],
        )
        self.t.normalise.name_producer(answer["producer_id"])
        return True

    @property
    def epochs(self) -> dict[str, int]:
        return {name: epoch for (kind, name), epoch in self.held.items() if kind == "producer_epoch"}

    @property
    def joined(self) -> set[str]:
        """Members of consumer groups that have an epoch, by ids that both brokers know."""
        return {name for kind, name in self.held if kind == "epoch" and name.rpartition("/")[2] in consumers.MEMBERS}

    # ---- waiting for what a broker does in its own time

    def _settle(self, api: str, body: dict[str, Any], answer: Any) -> None:
        makes_topic = (
            api == "metadata" and body.get("allow_auto_topic_creation", True) and "UNKNOWN_TOPIC" in str(answer)
        )
        if makes_topic or streams_members.waits(answer):
            time.sleep(0.6)
        elif api in PROPAGATED or body.get("subscribed_topic_regex") or body.get("topology"):
            time.sleep(0.15)
        elif api in GROUPS:
            time.sleep(0.03)
        elif api in TRANSACTIONS:
            self.t.until(f"markers of {self.t.prefix} at {self.t.port}", self._no_markers)

    def _no_markers(self) -> bool:
        ids = [self.t.prefix + name for name in ("tx1", "tx2")]
        answer = self._aside.call("describe_transactions", 0, {"transactional_ids": ids})
        return not any(state["transaction_state"].startswith("Prepare") for state in answer["transaction_states"])

    # ---- reading answers

    def plain(self, answer: Any, api: str) -> Any:
        """Sorted throughout: most of Kafka's lists are in the order of a hash map."""
        named = self._members_named(self.t.normalise(in_words(answer)))
        if api == share_consumers.FETCH:
            named = share_consumers.without_empty(named)
        if api in (share_consumers.HEARTBEAT, share_consumers.DESCRIBE):
            named = share_consumers.hidden(named)
        return in_order(consumers.hidden(named) if api in ASSIGNING else named)

    def _own(self, answer: Any) -> Any:
        """Of a list of everything, what is this run's."""
        if not isinstance(answer, dict):
            return answer
        out = dict(answer)
        for key, items in answer.items():
            if isinstance(items, list):
                out[key] = [self._own(item) for item in items if self._is_own(item)]
        return out

    def _is_own(self, item: Any) -> bool:
        names = [item[key] for key in NAMES if key in item] if isinstance(item, dict) else []
        return not names or str(names[0]).startswith(self.t.prefix)

    def _members_named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._members_named(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._members_named(item) for item in value]
        if isinstance(value, str) and GIVEN.fullmatch(value):
            return self._members.get(value, "<member>")
        if isinstance(value, str):
            return re.sub(r"<id \d+>", "<id>", MEMBER_ID.sub(lambda m: self._members.get(m[0], "<member>"), value))
        return value


def in_words(value: Any, key: str = "") -> Any:
    """With what members say to each other as text, since names of topics are in it."""
    if isinstance(value, dict):
        return {name: in_words(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [in_words(inner, key) for inner in value]
    return value.decode("latin-1") if isinstance(value, bytes) and key in WORDS else value


def in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: in_order(v) for k, v in value.items()}
    if isinstance(value, list):
        return in_one_order([in_order(v) for v in value])
    return value
