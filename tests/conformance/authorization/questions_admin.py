"""What each user asks about topics, configurations, the cluster, ACLs and tokens, and lists of everything."""

from __future__ import annotations

from typing import Any

from tests.conformance.authorization.questions import TOPICS, Body, question, with_partitions
from tests.conformance.authorization.world import NAMES, TIMEOUT_MS

TOPIC, GROUP, BROKER, LOGGER, METRICS = 2, 32, 4, 8, 16
"""Types of configurations."""

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
    {"timeout": TIMEOUT_MS, "topics": with_partitions("t-open", replicas=None)},
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
_VOTER = {"cluster_id": None, "voter_id": 99, "voter_directory_id": "0f" * 16}
question(
    "add_raft_voter", "add_raft_voter", 0,
    {**_VOTER, "timeout": TIMEOUT_MS, "listeners": [{"name": "CONTROLLER", "host": "voter.example", "port": 19093}]},
)  # fmt: skip
question("remove_raft_voter", "remove_raft_voter", 0, _VOTER)
question("unregister_controller", "unregister_controller", 0, {"controller_id": 99})
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


def _of_the_secret(period: str) -> Body:
    return lambda world, _: {"hmac": world.secret, period: 50_000_000}


for _api, _period in (("renew", "renew_period"), ("expire", "expiry_time_period")):
    question(
        f"{_api}_delegation_token", f"{_api}_delegation_token", 2,
        _of_the_secret(_period),
    )  # fmt: skip
    question(f"{_api}_delegation_token that is unknown", f"{_api}_delegation_token", 2, {"hmac": b"no", _period: 1000})

_NEW = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:other", "host": "*", "operation": 3,
        "permission_type": 3}  # fmt: skip


def _creating(wrong: dict[str, Any]) -> Body:
    """An ACL that is wrong, and one that is not."""
    return lambda _, user: {
        "creations": [
            {**_NEW, "resource_name": f"acl-{user}", **wrong},
            {**_NEW, "resource_name": f"acl-{user}"},
        ]
    }


_WRONG: dict[str, dict[str, Any]] = {
    "of the cluster by another name": {"resource_type": 4, "resource_name": "mine"},
    "without a name": {"resource_name": ""},
    "from what is no network": {"host": "10.0.0.1/33"},
    "of an unknown type": {"resource_type": 99},
    "of any type": {"resource_type": 1},
    "with an unknown pattern": {"resource_pattern_type": 99},
    "with a pattern for filters": {"resource_pattern_type": 2},
    "of an unknown operation": {"operation": 99},
    "of any operation": {"operation": 1},
    "with an unknown permission": {"permission_type": 99},
    "of nothing": {"resource_type": 0},
    "of a group, which cannot be written to": {"resource_type": 3, "operation": 4},
}
for _name, _wrong in _WRONG.items():
    question(f"create_acls {_name}", "create_acls", 3, _creating(_wrong))


def _deleting(changed: dict[str, Any]) -> Body:
    return lambda _, user: {
        "filters": [{**_FILTER, "resource_name_filter": f"acl-{user}", "principal_filter": "User:other", **changed}]
    }


_CHANGED: dict[str, dict[str, Any]] = {
    "that match": {"pattern_type_filter": 2},
    "of any pattern": {"pattern_type_filter": 1},
    "of a user": {"resource_name_filter": None, "principal_filter": "User:partly", "resource_type_filter": 1},
    "that deny": {"resource_name_filter": None, "permission_type": 2, "resource_type_filter": 1},
    "of an operation": {"resource_name_filter": None, "operation": 8, "resource_type_filter": 3},
    "of an unknown type": {"resource_type_filter": 99},
    "of nothing": {"operation": 0},
}
for _name, _changed in _CHANGED.items():
    question(f"describe_acls {_name}", "describe_acls", 3, {**_FILTER, "resource_name_filter": "t-open", **_changed})
    if "resource_name_filter" not in _changed:
        question(f"delete_acls {_name}", "delete_acls", 3, _deleting(_changed))

# -- lists of everything, without what other users make meanwhile

question("list_groups", "list_groups", 4, {"states_filter": []})
question("list_transactions", "list_transactions", 1, {"duration_filter": -1})
question("get_telemetry_subscriptions", "get_telemetry_subscriptions", 0, {"client_instance_id": "00" * 16})
question("push_telemetry", "push_telemetry", 0, {"client_instance_id": "0f" * 16, "subscription_id": 1, "metrics": b""})
question("api_versions", "api_versions", 3, {"client_software_name": "judge", "client_software_version": "1"})
question(
    "describe_delegation_token", "describe_delegation_token", 3,
    {"owners": [{"principal_type": "User", "principal_name": "all"}]},
)  # fmt: skip
