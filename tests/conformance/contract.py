"""What a recorded answer holds a broker to: everything, except the order of some lists and the wording of texts.

The order of these lists is that of Kafka's hash maps, on which no client can rely: they are compared as sets. A list of
answers, with an error for each, is such a list, unless the API answers in the order of the request (`IN_ORDER`). Of a
text, only whether it is null, empty or there is compared: error codes are the contract.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from protocol.api.messages import newest_response
from protocol.api.row import Api
from protocol.api.table import API_TABLE
from protocol.schema import EntityClass, field_plans

TEXTS = frozenset(
    {"acknowledge_error_message", "batch_index_error_message", "documentation", "error_message", "status_detail"}
)

IN_ORDER = frozenset(
    {
        "alter_configs",
        "alter_share_group_offsets",
        "consumer_group_describe",
        "create_acls",
        "delete_acls",
        "delete_share_group_offsets",
        "describe_log_dirs",
        "describe_producers",
        "describe_quorum",
        "describe_share_group_offsets",
        "describe_topic_partitions",
        "describe_transactions",
        "fetch",
        "find_coordinator",
        "leave_group",
        "offset_commit",
        "offset_delete",
    }
)
"""The APIs that answer what they are asked for in its order, which their clients may rely on."""

_OF_SHARE_GROUPS = ("groups", "members", "partitions", "subscribed_topic_names", "topic_partitions")
_OF_STREAMS_GROUPS = (
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
)
WITHOUT_ERRORS: Mapping[str, tuple[str, ...]] = {
    "add_partitions_to_txn": ("results_by_topic_v3_and_below",),
    "alter_client_quotas": ("entity", "values"),
    "create_topics": ("configs",),
    "describe_client_quotas": ("entity", "entries", "values"),
    "describe_configs": ("configs",),
    "describe_log_dirs": ("partitions", "topics"),
    "describe_producers": ("active_producers",),
    "describe_transactions": ("partitions", "topics"),
    "describe_user_scram_credentials": ("credential_infos",),
    "fetch": ("aborted_transactions",),
    "list_config_resources": ("config_resources",),
    "list_transactions": ("transaction_states", "unknown_state_filters"),
    "offset_delete": ("topics",),
    "share_group_describe": _OF_SHARE_GROUPS,
    "share_group_heartbeat": _OF_SHARE_GROUPS,
    "streams_group_describe": _OF_STREAMS_GROUPS,
    "streams_group_heartbeat": _OF_STREAMS_GROUPS,
    "update_features": ("results",),
}
"""Lists of what there is, rather than of answers, that Kafka takes from a hash map."""


def _lists_of_answers(cls: EntityClass) -> set[str]:
    """The lists in a response whose items have errors, and the lists around them: an answer for each that was asked."""
    found: set[str] = set()
    for plan in field_plans(cls):
        if plan.entity is not None:
            inner = _lists_of_answers(plan.entity)
            if plan.array and (inner or any(each.kind == "error_code" for each in field_plans(plan.entity))):
                inner.add(plan.name)
            found |= inner
    return found


def _unordered(api: Api) -> tuple[str, ...]:
    answers = set() if api.name in IN_ORDER else _lists_of_answers(newest_response(api))
    return tuple(sorted(answers.union(WITHOUT_ERRORS.get(api.name, ()))))


UNORDERED: Mapping[str, tuple[str, ...]] = {api.name: _unordered(api) for api in API_TABLE}


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
