"""The APIs that a node knows; ApiVersions, dispatch and the handlers' presence check derive from these lists.

`API_TABLE` and `OWN_TABLE` are served on the listeners of a broker, `CONTROLLER_TABLE` on that of a controller.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Api:
    """One row of the API table.

    `name` is kio's snake-case name and that of the handler module. `lowest`..`highest` are the versions served;
    `advertised_lowest` is what ApiVersions reports instead of `lowest`. From version `first_flexible` on, messages
    and headers carry tagged fields (KIP-482). `pipelined`: a later request of the same connection may be handled
    before the answer is ready. `advertised`: ApiVersions always lists the API; else
    only once metrics of clients are subscribed to.
    """

    key: int
    name: str
    lowest: int
    highest: int
    first_flexible: int
    advertised_lowest: int
    pipelined: bool = False
    advertised: bool = True

    def serves(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def response_header_version(self, version: int) -> int:
        """ApiVersions responses always carry header 0: a client may not know yet what the broker speaks (KIP-511)."""
        return 1 if version >= self.first_flexible and self.key != API_VERSIONS_KEY else 0


API_VERSIONS_KEY = 18


def _api(key: int, name: str, lowest: int, highest: int, first_flexible: int) -> Api:
    return Api(key, name, lowest, highest, first_flexible, advertised_lowest=lowest)


API_TABLE: tuple[Api, ...] = (
    # Version 0 is advertised though not served: librdkafka stops compressing otherwise (Kafka's KAFKA-18659).
    Api(0, "produce", 3, 13, first_flexible=9, advertised_lowest=0, pipelined=True),
    _api(1, "fetch", 4, 18, first_flexible=12),
    _api(2, "list_offsets", 1, 11, first_flexible=6),
    _api(3, "metadata", 0, 13, first_flexible=9),
    _api(8, "offset_commit", 2, 10, first_flexible=8),
    _api(9, "offset_fetch", 1, 10, first_flexible=6),
    _api(10, "find_coordinator", 0, 6, first_flexible=3),
    _api(11, "join_group", 0, 9, first_flexible=6),
    _api(12, "heartbeat", 0, 4, first_flexible=4),
    _api(13, "leave_group", 0, 5, first_flexible=4),
    _api(14, "sync_group", 0, 5, first_flexible=4),
    _api(15, "describe_groups", 0, 6, first_flexible=5),
    _api(16, "list_groups", 0, 5, first_flexible=3),
    _api(17, "sasl_handshake", 0, 1, first_flexible=2),
    _api(18, "api_versions", 0, 5, first_flexible=3),
    _api(19, "create_topics", 2, 7, first_flexible=5),
    _api(20, "delete_topics", 1, 6, first_flexible=4),
    _api(21, "delete_records", 0, 2, first_flexible=2),
    _api(22, "init_producer_id", 0, 5, first_flexible=2),
    _api(23, "offset_for_leader_epoch", 2, 4, first_flexible=4),
    _api(24, "add_partitions_to_txn", 0, 5, first_flexible=3),
    _api(25, "add_offsets_to_txn", 0, 4, first_flexible=3),
    _api(26, "end_txn", 0, 5, first_flexible=3),
    _api(27, "write_txn_markers", 1, 2, first_flexible=1),
    _api(28, "txn_offset_commit", 0, 6, first_flexible=3),
    _api(29, "describe_acls", 1, 3, first_flexible=2),
    _api(30, "create_acls", 1, 3, first_flexible=2),
    _api(31, "delete_acls", 1, 3, first_flexible=2),
    _api(32, "describe_configs", 1, 4, first_flexible=4),
    _api(33, "alter_configs", 0, 2, first_flexible=2),
    _api(34, "alter_replica_log_dirs", 1, 2, first_flexible=2),
    _api(35, "describe_log_dirs", 1, 5, first_flexible=2),
    _api(36, "sasl_authenticate", 0, 2, first_flexible=2),
    _api(37, "create_partitions", 0, 3, first_flexible=2),
    _api(38, "create_delegation_token", 1, 3, first_flexible=2),
    _api(39, "renew_delegation_token", 1, 2, first_flexible=2),
    _api(40, "expire_delegation_token", 1, 2, first_flexible=2),
    _api(41, "describe_delegation_token", 1, 3, first_flexible=2),
    _api(42, "delete_groups", 0, 3, first_flexible=2),
    _api(43, "elect_leaders", 0, 2, first_flexible=2),
    _api(44, "incremental_alter_configs", 0, 1, first_flexible=1),
    _api(45, "alter_partition_reassignments", 0, 1, first_flexible=0),
    _api(46, "list_partition_reassignments", 0, 0, first_flexible=0),
    _api(47, "offset_delete", 0, 0, first_flexible=1),
    _api(48, "describe_client_quotas", 0, 1, first_flexible=1),
    _api(49, "alter_client_quotas", 0, 1, first_flexible=1),
    _api(50, "describe_user_scram_credentials", 0, 0, first_flexible=0),
    _api(51, "alter_user_scram_credentials", 0, 0, first_flexible=0),
    _api(55, "describe_quorum", 0, 2, first_flexible=0),
    _api(57, "update_features", 0, 2, first_flexible=0),
    _api(60, "describe_cluster", 0, 2, first_flexible=0),
    _api(61, "describe_producers", 0, 0, first_flexible=0),
    _api(64, "unregister_broker", 0, 0, first_flexible=0),
    _api(65, "describe_transactions", 0, 0, first_flexible=0),
    _api(66, "list_transactions", 0, 2, first_flexible=0),
    _api(68, "consumer_group_heartbeat", 0, 1, first_flexible=0),
    _api(69, "consumer_group_describe", 0, 1, first_flexible=0),
    # Kafka lists the telemetry APIs only where a ClientTelemetry plugin is set (KIP-714), yet answers them; here a
    # subscription is what makes them known.
    Api(71, "get_telemetry_subscriptions", 0, 0, first_flexible=0, advertised_lowest=0, advertised=False),
    Api(72, "push_telemetry", 0, 0, first_flexible=0, advertised_lowest=0, advertised=False),
    _api(74, "list_config_resources", 0, 1, first_flexible=0),
    _api(75, "describe_topic_partitions", 0, 0, first_flexible=0),
    _api(76, "share_group_heartbeat", 1, 1, first_flexible=0),
    _api(77, "share_group_describe", 1, 1, first_flexible=0),
    _api(78, "share_fetch", 1, 2, first_flexible=0),
    _api(79, "share_acknowledge", 1, 2, first_flexible=0),
    _api(80, "add_raft_voter", 0, 1, first_flexible=0),
    _api(81, "remove_raft_voter", 0, 0, first_flexible=0),
    _api(83, "initialize_share_group_state", 0, 0, first_flexible=0),
    _api(84, "read_share_group_state", 0, 0, first_flexible=0),
    _api(85, "write_share_group_state", 0, 1, first_flexible=0),
    _api(86, "delete_share_group_state", 0, 0, first_flexible=0),
    _api(87, "read_share_group_state_summary", 0, 1, first_flexible=0),
    _api(88, "streams_group_heartbeat", 0, 1, first_flexible=0),
    _api(89, "streams_group_describe", 0, 1, first_flexible=0),
    _api(90, "describe_share_group_offsets", 0, 1, first_flexible=0),
    _api(91, "alter_share_group_offsets", 0, 0, first_flexible=0),
    _api(92, "delete_share_group_offsets", 0, 0, first_flexible=0),
    _api(93, "streams_group_topology_description_update", 0, 0, first_flexible=0),
    _api(94, "unregister_controller", 0, 0, first_flexible=0),
)

OWN_TABLE: tuple[Api, ...] = (
    _api(31001, "explain", 0, 0, first_flexible=0),
    _api(31002, "create_backup", 0, 0, first_flexible=0),
)
"""APIs that Kafka has not, for the `odradek` command, which alone sees them in ApiVersions: others get Kafka's list.

The keys are far from Kafka's own. The messages are in `protocol.newer`.
"""

CONTROLLER_ONLY: tuple[Api, ...] = (
    _api(56, "alter_partition", 3, 3, first_flexible=0),
    _api(58, "envelope", 0, 0, first_flexible=0),
    _api(59, "fetch_snapshot", 0, 1, first_flexible=0),
    _api(62, "broker_registration", 4, 4, first_flexible=0),
    _api(63, "broker_heartbeat", 0, 2, first_flexible=0),
    _api(67, "allocate_producer_ids", 0, 0, first_flexible=0),
    _api(73, "assign_replicas_to_dirs", 0, 0, first_flexible=0),
)
"""APIs that a controller serves to the other nodes of its cluster, on its own listener alone."""

_SHARED = frozenset(
    {
        "fetch",
        "api_versions",
        "create_topics",
        "delete_topics",
        "describe_acls",
        "create_acls",
        "delete_acls",
        "create_delegation_token",
        "renew_delegation_token",
        "expire_delegation_token",
        "alter_configs",
        "create_partitions",
        "elect_leaders",
        "incremental_alter_configs",
        "alter_partition_reassignments",
        "list_partition_reassignments",
        "alter_client_quotas",
        "alter_user_scram_credentials",
        "describe_quorum",
        "update_features",
        "unregister_broker",
        "unregister_controller",
    }
)
CONTROLLER_TABLE: tuple[Api, ...] = tuple(
    sorted((*CONTROLLER_ONLY, *(api for api in API_TABLE if api.name in _SHARED)), key=lambda api: api.key)
)
"""What is served on a controller's listener."""

API_BY_KEY: dict[int, Api] = {api.key: api for api in (*API_TABLE, *OWN_TABLE, *CONTROLLER_ONLY)}
API_BY_NAME: dict[str, Api] = {api.name: api for api in API_BY_KEY.values()}
