"""What each user asks: a request of every API that the authorizer has a say in, about several resources at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.conformance import batches
from tests.conformance.authorization.world import NAMES, TIMEOUT_MS, World, records


class Question(NamedTuple):
    """One request of a user's."""

    api: str
    version: int
    body: dict[str, Any]


Ask = Callable[[World, str], Question]
QUESTIONS: dict[str, Ask] = {}

TOPICS = (*NAMES, "t-none")
GROUPS = ("g-open", "g-closed", "p-g", "g-none")
IDS = ("x-open", "x-closed", "p-x")
PRODUCER = {"producer_id": 4_000_000, "producer_epoch": 0}
TOPIC, GROUP, BROKER, LOGGER, METRICS = 2, 32, 4, 8, 16
"""Types of configurations."""


def question(title: str, api: str, version: int, body: Callable[[World, str], dict[str, Any]] | dict[str, Any]) -> None:
    """Register one."""
    assert title not in QUESTIONS, title
    made = body if callable(body) else lambda _world, _user: body
    QUESTIONS[title] = lambda world, user: Question(api, version, made(world, user))


def _with_partitions(*names: str, **of_each: Any) -> list[dict[str, Any]]:
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
_IN_A_TRANSACTION = {"attributes": batches.TRANSACTIONAL, "pid": 4_000_000, "epoch": 0, "sequence": 0}
for _id in ("x-open", "p-x", None):
    question(
        f"produce in a transaction of {_id}", "produce", 9,
        lambda _world, _user, _id=_id: {
            "transactional_id": _id, "acks": -1, "timeout": TIMEOUT_MS,
            "topic_data": [
                {"name": name, "partition_data": [{"index": 0, "records": records(**_IN_A_TRANSACTION)}]}
                for name in ("t-open", "t-closed")
            ],
        },
    )  # fmt: skip
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
    {"replica_id": -1, "topics": _with_partitions(*TOPICS, timestamp=-1, current_leader_epoch=-1)},
)  # fmt: skip
question(
    "offset_for_leader_epoch", "offset_for_leader_epoch", 4,
    {"replica_id": -2, "topics": [
        {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
        for name in TOPICS]},
)  # fmt: skip
question(
    "delete_records", "delete_records", 2,
    {"timeout": TIMEOUT_MS, "topics": _with_partitions(*TOPICS, offset=0)},
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
         "topics": _with_partitions(*TOPICS, committed_offset=0, committed_metadata="")},
    )  # fmt: skip
    question(
        f"offset_fetch {_group}", "offset_fetch", 7,
        {"group_id": _group, "topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS]},
    )  # fmt: skip
    question(f"offset_fetch {_group}, all topics", "offset_fetch", 7, {"group_id": _group, "topics": None})
    question(
        f"txn_offset_commit {_group}", "txn_offset_commit", 3,
        {"transactional_id": "p-x", "group_id": _group, **PRODUCER, "generation_id": -1, "member_id": "",
         "topics": _with_partitions(*TOPICS, committed_offset=0, committed_metadata="")},
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
    lambda _, user: {"group_id": f"p-ogone-{user}", "topics": _with_partitions(*TOPICS)},
)  # fmt: skip
question(
    "offset_delete in another group", "offset_delete", 0,
    lambda _, user: {"group_id": f"n-ogone-{user}", "topics": _with_partitions(*TOPICS)},
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

# -- topics

_ALL_OPERATIONS = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
question(
    "metadata", "metadata", 9,
    {"topics": [{"name": name} for name in TOPICS], "allow_auto_topic_creation": False, **_ALL_OPERATIONS},
)  # fmt: skip
question(
    "metadata by id", "metadata", 12,
    lambda world, _: {"topics": [{"topic_id": each, "name": None}
                                 for each in [*(world.ids[name] for name in NAMES), "0f" * 16]],
                      "allow_auto_topic_creation": False, "include_topic_authorized_operations": True},
)  # fmt: skip
question(
    "metadata that creates", "metadata", 8,
    lambda _, user: {"topics": [{"name": f"n-auto-{user}"}, {"name": f"p-auto-{user}"}],
                     "allow_auto_topic_creation": True},
)  # fmt: skip
question(
    "describe_topic_partitions", "describe_topic_partitions", 0,
    {"topics": [{"name": name} for name in TOPICS], "response_partition_limit": 100, "cursor": None},
)  # fmt: skip
question(
    "create_topics", "create_topics", 7,
    lambda _, user: {
        "topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1}
            for name in (f"n-new-{user}", f"p-new-{user}", "t-open", "t-closed", "twice", "twice")
        ],
        "timeout": TIMEOUT_MS, "validate_only": True,
    },
)  # fmt: skip
question(
    "delete_topics", "delete_topics", 6,
    lambda world, user: {
        "topics": [
            *({"name": name, "topic_id": None} for name in (f"n-gone-{user}", f"p-gone-{user}", "t-none", "p-none")),
            *({"name": None, "topic_id": world.ids[name]} for name in (f"n-idgone-{user}", f"p-idgone-{user}")),
            {"name": None, "topic_id": "0f" * 16},
        ],
        "timeout": TIMEOUT_MS,
    },
)  # fmt: skip
question(
    "create_partitions", "create_partitions", 3,
    {"topics": [{"name": name, "count": 2, "assignments": None} for name in TOPICS], "timeout": TIMEOUT_MS,
     "validate_only": True},
)  # fmt: skip
question(
    "alter_partition_reassignments", "alter_partition_reassignments", 0,
    {"timeout": TIMEOUT_MS, "topics": _with_partitions("t-open", replicas=None)},
)  # fmt: skip
question("list_partition_reassignments", "list_partition_reassignments", 0, {"timeout": TIMEOUT_MS, "topics": None})
question(
    "elect_leaders", "elect_leaders", 2,
    {"election_type": 0, "topic_partitions": [{"topic": "t-open", "partitions": [0]}], "timeout": TIMEOUT_MS},
)  # fmt: skip

# -- configurations, quotas, users, features

_RESOURCES = [
    *((TOPIC, name) for name in TOPICS), *((GROUP, name) for name in ("g-open", "g-closed", "p-g")),
    (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"),
]  # fmt: skip
_SET = {TOPIC: ("retention.ms", "1000"), GROUP: ("consumer.session.timeout.ms", "50000"),
        BROKER: ("log.retention.ms", "1000"), METRICS: ("interval.ms", "1000")}  # fmt: skip
question(
    "describe_configs", "describe_configs", 4,
    {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": ["nothing"]}
                   for kind, name in _RESOURCES if kind != LOGGER]},
)  # fmt: skip
for _api in ("alter_configs", "incremental_alter_configs"):
    question(
        _api, _api, 1,
        {"resources": [
            {"resource_type": kind, "resource_name": name,
             "configs": [{"name": _SET[kind][0], "value": _SET[kind][1], "config_operation": 0}
                         if _api.startswith("inc") else {"name": _SET[kind][0], "value": _SET[kind][1]}]}
            for kind, name in _RESOURCES if kind != LOGGER], "validate_only": True},
    )  # fmt: skip
question("list_config_resources of metrics", "list_config_resources", 0, {})
question("list_config_resources", "list_config_resources", 1, {"resource_types": [METRICS]})
question("describe_client_quotas", "describe_client_quotas", 1, {"components": [], "strict": False})
question(
    "alter_client_quotas", "alter_client_quotas", 1,
    {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}],
                  "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]}], "validate_only": True},
)  # fmt: skip
question(
    "describe_user_scram_credentials", "describe_user_scram_credentials", 0, {"users": [{"name": "a"}, {"name": "b"}]}
)
question(
    "alter_user_scram_credentials", "alter_user_scram_credentials", 0,
    {"deletions": [{"name": "a", "mechanism": 1}, {"name": "b", "mechanism": 1}], "upsertions": []},
)  # fmt: skip
question(
    "update_features", "update_features", 1,
    {"timeout": TIMEOUT_MS, "feature_updates": [{"feature": "nothing", "max_version_level": 1, "upgrade_type": 1}],
     "validate_only": True},
)  # fmt: skip

# -- the cluster

question(
    "describe_cluster", "describe_cluster", 1,
    {"include_cluster_authorized_operations": True, "endpoint_type": 1},
)  # fmt: skip
question(
    "describe_quorum", "describe_quorum", 1, {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]}
)
question("unregister_broker", "unregister_broker", 0, {"broker_id": 99})
question(
    "alter_replica_log_dirs", "alter_replica_log_dirs", 2,
    {"dirs": [{"path": "/no/such/folder", "topics": [{"name": name, "partitions": [0]} for name in TOPICS]}]},
)  # fmt: skip
for _version in (2, 4):
    question(
        f"describe_log_dirs {_version}", "describe_log_dirs", _version,
        {"topics": [{"topic": "t-open", "partitions": [0]}]},
    )  # fmt: skip

# -- ACLs and tokens

_FILTER = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 1, "permission_type": 1,
           "principal_filter": None, "host_filter": None}  # fmt: skip
question("describe_acls", "describe_acls", 3, {**_FILTER, "resource_name_filter": "t-open"})
question(
    "create_acls", "create_acls", 3,
    lambda _, user: {"creations": [
        {"resource_type": 2, "resource_name": f"acl-{user}", "resource_pattern_type": 3, "principal": "User:other",
         "host": "*", "operation": 3, "permission_type": 3}]},
)  # fmt: skip
question(
    "delete_acls", "delete_acls", 3,
    lambda _, user: {"filters": [{**_FILTER, "resource_name_filter": f"acl-{user}"},
                                 {**_FILTER, "resource_name_filter": "acl-none"}]},
)  # fmt: skip
question("create_delegation_token", "create_delegation_token", 3, {"renewers": [], "max_lifetime": -1})
question(
    "create_delegation_token for another", "create_delegation_token", 3,
    lambda _, user: {"owner_principal_type": "User", "owner_principal_name": f"someone-{user}", "renewers": [],
                     "max_lifetime": -1},
)  # fmt: skip
for _api, _period in (("renew", "renew_period"), ("expire", "expiry_time_period")):
    question(
        f"{_api}_delegation_token", f"{_api}_delegation_token", 2,
        lambda world, _, period=_period: {"hmac": world.secret, period: 50_000_000},
    )  # fmt: skip
    question(f"{_api}_delegation_token that is unknown", f"{_api}_delegation_token", 2, {"hmac": b"no", _period: 1000})

_NEW = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:other", "host": "*", "operation": 3,
        "permission_type": 3}  # fmt: skip
for _name, _wrong in {
    "of the cluster by another name": {"resource_type": 4, "resource_name": "mine"},
    "without a name": {"resource_name": ""},
    "of an unknown type": {"resource_type": 99},
    "of any type": {"resource_type": 1},
    "with an unknown pattern": {"resource_pattern_type": 99},
    "with a pattern for filters": {"resource_pattern_type": 2},
    "of an unknown operation": {"operation": 99},
    "of any operation": {"operation": 1},
    "with an unknown permission": {"permission_type": 99},
    "of nothing": {"resource_type": 0},
    "of a group, which cannot be written to": {"resource_type": 3, "operation": 4},
}.items():
    question(
        f"create_acls {_name}", "create_acls", 3,
        lambda _world, user, _wrong=_wrong: {"creations": [
            {**_NEW, "resource_name": f"acl-{user}", **_wrong}, {**_NEW, "resource_name": f"acl-{user}"}]},
    )  # fmt: skip
for _name, _changed in {
    "that match": {"pattern_type_filter": 2},
    "of any pattern": {"pattern_type_filter": 1},
    "of a user": {"resource_name_filter": None, "principal_filter": "User:partly", "resource_type_filter": 1},
    "that deny": {"resource_name_filter": None, "permission_type": 2, "resource_type_filter": 1},
    "of an operation": {"resource_name_filter": None, "operation": 8, "resource_type_filter": 3},
    "of an unknown type": {"resource_type_filter": 99},
    "of nothing": {"operation": 0},
}.items():
    question(f"describe_acls {_name}", "describe_acls", 3, {**_FILTER, "resource_name_filter": "t-open", **_changed})
    if "resource_name_filter" not in _changed:
        question(
            f"delete_acls {_name}", "delete_acls", 3,
            lambda _world, user, _changed=_changed: {
                "filters": [{**_FILTER, "resource_name_filter": f"acl-{user}", "principal_filter": "User:other",
                             **_changed}]},
        )  # fmt: skip

# -- lists of everything, without what other users make meanwhile

question("list_groups", "list_groups", 4, {"states_filter": []})
question("list_transactions", "list_transactions", 1, {"duration_filter": -1})
question("get_telemetry_subscriptions", "get_telemetry_subscriptions", 0, {"client_instance_id": "00" * 16})
question(
    "describe_delegation_token", "describe_delegation_token", 3,
    {"owners": [{"principal_type": "User", "principal_name": "all"}]},
)  # fmt: skip
