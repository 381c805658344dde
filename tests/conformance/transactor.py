"""A transactional producer that says exactly what a scenario wants, of every version."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches
from tests.conformance.contract import UNORDERED
from tests.conformance.runner import Talk, Topic, produce_body
from tests.conformance.wire import Closed, Silent

Partition = tuple[str, int]

TRANSACTION_KEY, GROUP_KEY = 1, 0
FIRST_VERSION_BETWEEN_BROKERS = 4


class Transactor:
    """One transactional id, its producer as last answered, and requests in its name."""

    def __init__(self, t: Talk, name: str = "tx") -> None:
        self.t = t
        self.id = t.prefix + name
        self.producer_id, self.epoch = -1, -1
        t.until("the transaction coordinator is there", lambda: self._found(self.id, TRANSACTION_KEY))

    def _found(self, key: str, key_type: int) -> bool:
        answer = self.t.main.call("find_coordinator", 2, {"key": key, "key_type": key_type})
        return not isinstance(answer, Closed | Silent) and bool(answer["error_code"] == "0 NONE")

    @property
    def who(self) -> dict[str, Any]:
        return {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    def _became(self, answer: dict[str, Any]) -> None:
        if answer.get("error_code") == "0 NONE" and answer.get("producer_id", -1) >= 0:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
            self.t.normalise.name_producer(self.producer_id)

    # ---- requests

    def init(self, step: str, v: int, timeout: int = 60_000, **fields: Any) -> None:
        """InitProducerId as one that knows of no producer; the answer's is this one's from now on."""
        body = {"transactional_id": self.id, "transaction_timeout": timeout, "producer_id": -1, "producer_epoch": -1}
        self._became(self.t.call(step, "init_producer_id", v, body | fields))

    def start(self, timeout: int = 60_000) -> Transactor:
        """The same, as no step; twice, so that an epoch before its own is one that there was."""
        body = {"transactional_id": self.id, "transaction_timeout": timeout, "producer_id": -1, "producer_epoch": -1}

        def started() -> bool:
            self._became(answer := self.t.main.call("init_producer_id", 4, body))
            return bool(answer["error_code"] == "0 NONE")

        self.t.until("a producer", started)
        self.t.until("its next epoch", started)
        return self

    def one(self, *partitions: Partition, verify_only: bool = False, **fields: Any) -> dict[str, Any]:
        """What AddPartitionsToTxn 4 and 5 say of one transaction."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        topics = [{"name": name, "partitions": indexes} for name, indexes in by_topic.items()]
        return self.who | {"verify_only": verify_only, "topics": topics} | fields

    def add(self, step: str, v: int, *partitions: Partition, **fields: Any) -> None:
        one = self.one(*partitions, **fields)
        if v >= FIRST_VERSION_BETWEEN_BROKERS:
            body = {"transactions": [one]}
        else:
            del one["verify_only"]
            body = {f"v3_and_below_{name}": value for name, value in one.items()}
        self.t.call(step, "add_partitions_to_txn", v, body)

    def add_offsets(self, step: str, v: int, group: str = "group", **fields: Any) -> None:
        body = self.who | {"group_id": self.t.prefix + group} | fields
        self.t.call(step, "add_offsets_to_txn", v, body)

    def commit_offsets(self, step: str, v: int, topic: str, *indexes: int, group: str = "group", **fields: Any) -> None:
        self.t.until("the group coordinator is there", lambda: self._found(self.t.prefix + group, GROUP_KEY))
        offset = {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "note"}
        topics = [{"name": topic, "partitions": [{"partition_index": index} | offset for index in indexes]}]
        body = self.who | {"group_id": self.t.prefix + group, "topics": topics} | fields
        self.t.call(step, "txn_offset_commit", v, body)

    def end(self, step: str, v: int, commit: bool, **fields: Any) -> None:
        """EndTxn; from version 5 on the answer's producer is this one's from now on."""
        self._became(self.t.call(step, "end_txn", v, self.who | {"committed": commit} | fields))

    def produce(self, step: str, v: int, topic: Topic, sequence: int, index: int = 0, **fields: Any) -> None:
        """One transactional record; `transactional_id`, `pid`, `epoch` and `attributes` may be others."""
        transactional_id = fields.pop("transactional_id", self.id)
        header = {"pid": self.producer_id, "epoch": self.epoch, "attributes": batches.TRANSACTIONAL} | fields
        body = produce_body(topic, {index: self.t.batch(1, sequence=sequence, **header)})
        self.t.call(step, "produce", v, body | {"transactional_id": transactional_id})

    # ---- what is told

    def described(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.t.main.call("describe_transactions", 0, {"transactional_ids": [self.id]})
        return described(answer)[0]

    def describe(self, step: str) -> None:
        self.t.keep(step, self.described(), unordered=UNORDERED["describe_transactions"])

    def settle(self, state: str) -> None:
        """Wait for markers: nothing tells when they are written."""
        self.t.until(state, lambda: self.described()["transaction_state"] == state)

    def ended(self, step: str, v: int, commit: bool) -> None:
        """EndTxn, and its markers written."""
        self.end(step, v, commit)
        self.settle("CompleteCommit" if commit else "CompleteAbort")

    def committed(self, step: str, topic: str, *indexes: int, group: str = "group", stable: bool = True) -> None:
        """What the group has committed."""
        wanted = [{"name": topic, "partition_indexes": list(indexes)}]
        body = {"groups": [{"group_id": self.t.prefix + group, "topics": wanted}], "require_stable": stable}
        self.t.call(step, "offset_fetch", 8, body)


def described(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The states of a DescribeTransactions; one that failed names producer 0, who may be somebody."""
    states: list[dict[str, Any]] = answer["transaction_states"]
    return [state if state["error_code"] == "0 NONE" else state | {"producer_id": -1} for state in states]


def read(
    t: Talk, step: str, topic: Topic, isolation: int, index: int = 0, *, start: int = 0, most_bytes: int = 1 << 20
) -> None:
    """What a Fetch of everything gives, or of `most_bytes` from an offset on."""
    partition = {"partition": index, "fetch_offset": start, "partition_max_bytes": most_bytes}
    body = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1, "isolation_level": isolation}
    topics = [{"topic": topic.name, "partitions": [partition]}]
    t.call(step, "fetch", 11, body | {"topics": topics})


def offsets(t: Talk, step: str, topic: Topic, isolation: int, index: int = 0) -> None:
    """The latest offset, and that of the run's time."""
    for what, timestamp in (("latest", -1), ("at t0", t.t0)):
        asked = [{"partition_index": index, "timestamp": timestamp}]
        body = {"replica_id": -1, "isolation_level": isolation, "topics": [{"name": topic.name, "partitions": asked}]}
        t.call(f"{step}: {what}", "list_offsets", 5, body)


def producers(t: Talk, step: str, topic: str, *indexes: int) -> None:
    body = {"topics": [{"name": topic, "partition_indexes": list(indexes)}]}
    t.call(step, "describe_producers", 0, body)
