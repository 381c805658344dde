"""What each user asks: a request of every API that the authorizer has a say in, about several resources at once.

Here are records, groups and transactions; `questions_admin` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.conformance import batches
from tests.conformance.authorization.world import NAMES, TIMEOUT_MS, World, records

Body = Callable[[World, str], dict[str, Any]]
"""What a user asks in a world."""


class Question(NamedTuple):
    """One request of each user's."""

    api: str
    version: int
    body: Body


QUESTIONS: dict[str, Question] = {}

TOPICS = (*NAMES, "t-none")
GROUPS = ("g-open", "g-closed", "p-g", "g-none")
IDS = ("x-open", "x-closed", "p-x")
PRODUCER = {"producer_id": 4_000_000, "producer_epoch": 0}


def question(title: str, api: str, version: int, body: Body | dict[str, Any]) -> None:
    """Register one."""
    assert title not in QUESTIONS, title
    QUESTIONS[title] = Question(api, version, body if callable(body) else lambda _world, _user: body)


def with_partitions(*names: str, **of_each: Any) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, **of_each}]} for name in names]


# -- records


def _produce(world: World, _user: str) -> dict[str, Any]:
    data = [{"index": 0, "records": records()}]
    return {
        "acks": -1,
        "timeout": TIMEOUT_MS,
        "topic_data": [{"name": name, "partition_data": data} for name in TOPICS],
    }


def _produce_by_id(world: World, _user: str) -> dict[str, Any]:
    data = [{"index": 0, "records": records()}]
    ids = [*(world.ids[name] for name in NAMES), "0f" * 16]
    topics = [{"topic_id": topic_id, "partition_data": data} for topic_id in ids]
    return {"acks": -1, "timeout": TIMEOUT_MS, "topic_data": topics}


_FETCHED = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1, "replica_id": -1}
_PARTITION = {
    "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1,
    "last_fetched_epoch": -1, "log_start_offset": -1,
}  # fmt: skip

question("produce", "produce", 9, _produce)
question("produce by id", "produce", 13, _produce_by_id)
question(
    "produce without an answer", "produce", 9,
    lambda _world, _user: {
        "acks": 0, "timeout": TIMEOUT_MS,
        "topic_data": [{"name": "t-none", "partition_data": [{"index": 0, "records": records()}]}],
    },
)  # fmt: skip
_IN_A_TRANSACTION: dict[str, int] = {"attributes": batches.TRANSACTIONAL, "pid": 4_000_000, "epoch": 0, "sequence": 0}


def _in_transaction(transactional_id: str | None) -> Body:
    return lambda _world, _user: {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": TIMEOUT_MS,
        "topic_data": [
            {"name": name, "partition_data": [{"index": 0, "records": records(**_IN_A_TRANSACTION)}]}
            for name in ("t-open", "t-closed")
        ],
    }


for _id in ("x-open", "p-x", None):
    question(f"produce in a transaction of {_id}", "produce", 9, _in_transaction(_id))
question(
    "fetch", "fetch", 12,
    {**_FETCHED, "topics": [{"topic": name, "partitions": [_PARTITION]} for name in TOPICS]},
)  # fmt: skip
question(
    "fetch by id", "fetch", 13,
    lambda world, _: {
        **_FETCHED,
        "topics": [{"topic_id": each, "partitions": [_PARTITION]}
                   for each in [*(world.ids[name] for name in NAMES), "0f" * 16]],
    },
)  # fmt: skip
question(
    "fetch of a replica", "fetch", 12,
    {**_FETCHED, "replica_id": 9, "topics": [{"topic": name, "partitions": [_PARTITION]} for name in TOPICS]},
)  # fmt: skip
question(
    "list_offsets", "list_offsets", 7,
    {"replica_id": -1, "topics": with_partitions(*TOPICS, timestamp=-1, current_leader_epoch=-1)},
)  # fmt: skip
question(
    "offset_for_leader_epoch", "offset_for_leader_epoch", 4,
    {"replica_id": -2, "topics": [
        {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
        for name in TOPICS]},
)  # fmt: skip
question(
    "delete_records", "delete_records", 2,
    {"timeout": TIMEOUT_MS, "topics": with_partitions(*TOPICS, offset=0)},
)  # fmt: skip

# -- groups

for _type, _keys in enumerate((GROUPS, IDS)):
    question(
        f"find_coordinator of type {_type}", "find_coordinator", 4,
        {"key_type": _type, "coordinator_keys": [key for key in _keys if not key.endswith("none")]},
    )  # fmt: skip
    for _key in _keys[:2]:
        question(f"find_coordinator of {_key}", "find_coordinator", 3, {"key_type": _type, "key": _key})
_MEMBER = {"member_id": "no member", "generation_id": 1}
for _group in GROUPS[:2]:
    question(
        f"join_group {_group}", "join_group", 9,
        {"group_id": _group, "session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": "no member",
         "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]},
    )  # fmt: skip
    question(
        f"sync_group {_group}", "sync_group", 5,
        {"group_id": _group, **_MEMBER, "protocol_type": "consumer", "protocol_name": "range", "assignments": []},
    )  # fmt: skip
    question(f"heartbeat {_group}", "heartbeat", 4, {"group_id": _group, **_MEMBER})
    question(f"leave_group {_group}", "leave_group", 5, {"group_id": _group, "members": [{"member_id": "no member"}]})
    question(
        f"offset_commit {_group}", "offset_commit", 8,
        {"group_id": _group, "generation_id_or_member_epoch": -1, "member_id": "",
         "topics": with_partitions(*TOPICS, committed_offset=0, committed_metadata="")},
    )  # fmt: skip
    question(
        f"offset_fetch {_group}", "offset_fetch", 7,
        {"group_id": _group, "topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS]},
    )  # fmt: skip
    question(f"offset_fetch {_group}, all topics", "offset_fetch", 7, {"group_id": _group, "topics": None})
    question(
        f"txn_offset_commit {_group}", "txn_offset_commit", 3,
        {"transactional_id": "p-x", "group_id": _group, **PRODUCER, "generation_id": -1, "member_id": "",
         "topics": with_partitions(*TOPICS, committed_offset=0, committed_metadata="")},
    )  # fmt: skip
question(
    "consumer_group_heartbeat", "consumer_group_heartbeat", 1,
    {"group_id": "p-g", "member_id": "no member", "member_epoch": 5, "rebalance_timeout": 10_000,
     "subscribed_topic_names": list(TOPICS)},
)  # fmt: skip
question(
    "consumer_group_heartbeat of a group that is open", "consumer_group_heartbeat", 1,
    {"group_id": "g-open", "member_id": "no member", "member_epoch": 5, "rebalance_timeout": 10_000,
     "subscribed_topic_names": ["t-open"]},
)  # fmt: skip
question(
    "offset_fetch", "offset_fetch", 8,
    {"groups": [
        *({"group_id": group, "topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS]}
          for group in GROUPS),
    ]},
)  # fmt: skip
question(
    "offset_delete", "offset_delete", 0,
    lambda _, user: {"group_id": f"p-ogone-{user}", "topics": with_partitions(*TOPICS)},
)  # fmt: skip
question(
    "offset_delete in another group", "offset_delete", 0,
    lambda _, user: {"group_id": f"n-ogone-{user}", "topics": with_partitions(*TOPICS)},
)  # fmt: skip
question("describe_groups", "describe_groups", 6, {"groups": list(GROUPS), "include_authorized_operations": True})
question(
    "consumer_group_describe", "consumer_group_describe", 1,
    {"group_ids": ["g-consumer", "g-open"], "include_authorized_operations": True},
)  # fmt: skip
question(
    "delete_groups", "delete_groups", 2,
    lambda _, user: {"groups_names": [f"n-ggone-{user}", f"p-ggone-{user}", "g-none"]},
)  # fmt: skip

# -- transactions

question(
    "init_producer_id", "init_producer_id", 4,
    {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
)  # fmt: skip
for _id in (*IDS[1:], "x-other"):
    question(
        f"init_producer_id {_id}", "init_producer_id", 4,
        {"transactional_id": _id, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
    )  # fmt: skip
for _id in ("x-open", "p-x"):
    for _topics in (TOPICS[:3], TOPICS):
        question(
            f"add_partitions_to_txn {_id}, {len(_topics)} topics", "add_partitions_to_txn", 3,
            {"v3_and_below_transactional_id": _id, "v3_and_below_producer_id": 4_000_000,
             "v3_and_below_producer_epoch": 0,
             "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in _topics]},
        )  # fmt: skip
    question(
        f"add_offsets_to_txn {_id}", "add_offsets_to_txn", 3, {"transactional_id": _id, **PRODUCER, "group_id": "p-g"}
    )
    question(f"end_txn {_id}", "end_txn", 3, {"transactional_id": _id, **PRODUCER, "committed": False})
question(
    "add_partitions_to_txn between brokers", "add_partitions_to_txn", 4,
    {"transactions": [{"transactional_id": "x-open", **PRODUCER, "verify_only": True,
                       "topics": [{"name": "t-open", "partitions": [0]}]}]},
)  # fmt: skip
question(
    "add_offsets_to_txn of another group", "add_offsets_to_txn", 3,
    {"transactional_id": "p-x", **PRODUCER, "group_id": "g-closed"},
)  # fmt: skip
question(
    "write_txn_markers", "write_txn_markers", 1,
    {"markers": [{"producer_id": 4_000_000, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0,
                  "topics": [{"name": "t-none", "partition_indexes": [0]}]}]},
)  # fmt: skip
question(
    "describe_producers", "describe_producers", 0,
    {"topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS]},
)  # fmt: skip
question("describe_transactions", "describe_transactions", 0, {"transactional_ids": ["x-open", "x-none", "p-none"]})
