"""What a recorded answer holds a broker to: everything, except the order of some lists and the wording of texts.

The order of these lists is that of Kafka's hash maps, on which no client can rely: they are compared as sets. Where
Kafka's own order means something (records, versions, places of a request that are answered one by one) a list is not
here. Of a text, only whether it is null, empty or there is compared: error codes are the contract.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

TEXTS = frozenset(
    {"acknowledge_error_message", "batch_index_error_message", "documentation", "error_message", "status_detail"}
)

UNORDERED: Mapping[str, tuple[str, ...]] = {
    "add_partitions_to_txn": (
        "results_by_partition",
        "results_by_topic_v3_and_below",
        "results_by_transaction",
        "topic_results",
    ),
    "alter_client_quotas": ("entity", "entries", "values"),
    "alter_partition_reassignments": ("partitions", "responses"),
    "alter_replica_log_dirs": ("partitions", "results"),
    "alter_user_scram_credentials": ("results",),
    "create_partitions": ("results",),
    "create_topics": ("configs", "topics"),
    "delete_groups": ("results",),
    "delete_records": ("partitions", "topics"),
    "delete_topics": ("responses",),
    "describe_client_quotas": ("entity", "entries", "values"),
    "describe_configs": ("configs", "results"),
    "describe_groups": ("groups",),
    "describe_log_dirs": ("partitions", "topics"),
    "describe_producers": ("active_producers",),
    "describe_transactions": ("partitions", "topics"),
    "describe_user_scram_credentials": ("credential_infos", "results"),
    "elect_leaders": ("partition_result", "replica_election_results"),
    "fetch": ("aborted_transactions",),
    "incremental_alter_configs": ("responses",),
    "list_config_resources": ("config_resources",),
    "list_offsets": ("partitions", "topics"),
    "list_transactions": ("transaction_states", "unknown_state_filters"),
    "metadata": ("partitions", "topics"),
    "offset_delete": ("topics",),
    "offset_fetch": ("groups", "partitions", "topics"),
    "offset_for_leader_epoch": ("partitions", "topics"),
    "produce": ("partition_responses", "responses"),
    **dict.fromkeys(
        (
            "initialize_share_group_state",
            "read_share_group_state",
            "write_share_group_state",
            "delete_share_group_state",
            "read_share_group_state_summary",
        ),
        ("partitions", "results"),
    ),
    **dict.fromkeys(
        ("share_group_describe", "share_group_heartbeat"),
        ("groups", "members", "partitions", "subscribed_topic_names", "topic_partitions"),
    ),
    **dict.fromkeys(("share_acknowledge", "share_fetch"), ("partitions", "responses")),
    **dict.fromkeys(
        ("streams_group_describe", "streams_group_heartbeat"),
        (
            "active_partitions",
            "active_tasks",
            "client_tags",
            "groups",
            "members",
            "partitions",
            "partitions_by_user_endpoint",
            "standby_partitions",
            "standby_tasks",
            "status",
            "topic_configs",
            "warmup_tasks",
        ),
    ),
    "txn_offset_commit": ("partitions", "topics"),
    "update_features": ("results",),
    "write_txn_markers": ("markers", "partitions", "topics"),
}


def in_one_order(items: list[Any]) -> list[Any]:
    """The items of an unordered list, sorted by all they say."""
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def in_contract_order(api: str, value: Any, key: str = "") -> Any:
    """An answer with each list that is unordered in one order."""
    if isinstance(value, dict):
        return {k: in_contract_order(api, v, k) for k, v in value.items()}
    if isinstance(value, list):
        items = [in_contract_order(api, item, key) for item in value]
        return in_one_order(items) if key in UNORDERED.get(api, ()) else items
    return value
