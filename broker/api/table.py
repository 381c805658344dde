"""Where the handler of each API is, and the one function before those that a controller decides.

The node hands `handler_of` to dispatch, which imports no handler itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from broker.network.ports import Handle, Handler

if TYPE_CHECKING:
    # What `import_module` imports: so it is in the graph of imports, too.
    from broker.api import (  # noqa: F401
        acls,
        api_versions,
        classic_groups,
        configs,
        consumer_groups,
        controller,
        controller_fetch,
        delegation_tokens,
        describe_configs,
        fetch,
        find_coordinator,
        group_admin,
        init_producer_id,
        log_dirs,
        metadata,
        offsets,
        partitions,
        produce,
        quorum,
        share_acknowledge,
        share_fetch,
        share_group_offsets,
        share_groups,
        share_state,
        streams_groups,
        telemetry,
        topics,
        transaction_admin,
        transactions,
        users,
    )
    from broker.request_context import RequestContext
    from protocol.api.row import Api

OF_CONTROLLER = "_of_controller"
"""The end of the name of a handler for a controller's listener, where a broker has another."""

_APIS: Mapping[str, str] = MappingProxyType(
    {
        "acls": "describe_acls create_acls delete_acls",
        "api_versions": "api_versions api_versions_of_controller sasl_handshake sasl_authenticate",
        "classic_groups": "join_group sync_group heartbeat leave_group",
        "configs": "alter_configs alter_configs_of_controller incremental_alter_configs"
        " incremental_alter_configs_of_controller list_config_resources",
        "consumer_groups": "consumer_group_heartbeat consumer_group_describe",
        "controller": "broker_registration broker_heartbeat alter_partition assign_replicas_to_dirs"
        " allocate_producer_ids envelope",
        "controller_fetch": "fetch_of_controller fetch_snapshot",
        "delegation_tokens": "create_delegation_token renew_delegation_token expire_delegation_token"
        " describe_delegation_token",
        "describe_configs": "describe_configs",
        "fetch": "fetch",
        "find_coordinator": "find_coordinator",
        "group_admin": "describe_groups list_groups delete_groups",
        "init_producer_id": "init_producer_id",
        "log_dirs": "describe_log_dirs alter_replica_log_dirs",
        "metadata": "metadata",
        "offsets": "offset_commit offset_fetch offset_delete",
        "partitions": "list_offsets offset_for_leader_epoch delete_records",
        "produce": "produce",
        "quorum": "describe_cluster describe_quorum add_raft_voter remove_raft_voter update_features unregister_broker"
        " unregister_controller",
        "share_acknowledge": "share_acknowledge",
        "share_fetch": "share_fetch",
        "share_group_offsets": "describe_share_group_offsets alter_share_group_offsets delete_share_group_offsets",
        "share_groups": "share_group_heartbeat share_group_describe",
        "share_state": "initialize_share_group_state read_share_group_state read_share_group_state_summary"
        " write_share_group_state delete_share_group_state",
        "streams_groups": "streams_group_heartbeat streams_group_describe streams_group_topology_description_update",
        "telemetry": "get_telemetry_subscriptions push_telemetry",
        "topics": "create_topics delete_topics create_partitions describe_topic_partitions elect_leaders"
        " alter_partition_reassignments list_partition_reassignments",
        "transaction_admin": "write_txn_markers describe_producers describe_transactions list_transactions",
        "transactions": "add_partitions_to_txn add_offsets_to_txn txn_offset_commit end_txn",
        "users": "describe_user_scram_credentials alter_user_scram_credentials describe_client_quotas"
        " alter_client_quotas",
    }
)
MODULES: Mapping[str, str] = MappingProxyType(
    {name: module for module, names in _APIS.items() for name in names.split()}
)
"""The module of each handler, by its name."""


def handler_of(api: Api, *, of_controller: bool = False) -> Handler:
    """The handler of an API; one that a controller decides sends the request on where the controller is elsewhere."""
    name = api.name
    if of_controller and name + OF_CONTROLLER in MODULES:
        name += OF_CONTROLLER
    found: Any = getattr(import_module(f"{__package__}.{MODULES[name]}"), name)
    handler = found if isinstance(found, Handler) else Handler(found)
    if api.place == "decides" and not handler.forwards:
        return replace(handler, handle=_decided_by_controller(handler))
    return handler


def _decided_by_controller(handler: Handler) -> Handle:
    """The handler's function; a broker whose controllers are other nodes sends the request on to them (KIP-590)."""
    handle, first = handler.handle, handler.first

    def forward_or_handle(ctx: RequestContext, request: Any) -> Any:
        if not ctx.controller.is_elsewhere:
            return handle(ctx, request)
        if first is not None:
            first(ctx)
        return ctx.controller.forward(ctx)

    return forward_or_handle
