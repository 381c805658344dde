"""The APIs that a node knows, a row each (see `row.Api`).

`API_TABLE` and `OWN_TABLE` are served on the listeners of a broker, `CONTROLLER_TABLE` on that of a controller.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from . import rights
from .rights import Operation, Resource
from .row import Api

# A row is as short as it can be.
# fmt: off
API_TABLE: tuple[Api, ...] = (
    # Version 0 is advertised though not served: librdkafka stops compressing otherwise (Kafka's KAFKA-18659).
    Api(0, "produce", 3, 13, 9, rights.PRODUCE, advertised_from=0, writes="topic", own_codec=True, pipelined=True),
    Api(1, "fetch", 4, 18, 12, rights.FETCH,
        rights_of_nodes=rights.ACTION, place="both", own_codec=True, only_reads=True),
    Api(2, "list_offsets", 1, 11, 6, (rights.each("TOPIC", "DESCRIBE"),)),
    Api(3, "metadata", 0, 13, 9, rights.METADATA, fails_everywhere=True),
    Api(8, "offset_commit", 2, 10, 8, (rights.READ_GROUP, rights.each("TOPIC", "READ")), writes="group"),
    Api(9, "offset_fetch", 1, 10, 6, rights.OFFSET_FETCH,
        only_reads=True, own_form_until=7, when_failed=(("committed_offset", -1),)),
    Api(10, "find_coordinator", 0, 6, 3, rights.FIND_COORDINATOR,
        own_form_until=3, terse=True, when_failed=(("node_id", -1), ("port", -1), ("error_message", ""))),
    Api(11, "join_group", 0, 9, 6, (rights.READ_GROUP,), writes="group", when_failed=(("protocol_name", None),)),
    # A heartbeat is accepted unchecked while the coordinator loads (14), so that no member rejoins.
    Api(12, "heartbeat", 0, 4, 4, (rights.READ_GROUP,),
        repeats=True, forgives=(14,)),
    Api(13, "leave_group", 0, 5, 4, (rights.READ_GROUP,), writes="group"),
    Api(14, "sync_group", 0, 5, 4, (rights.READ_GROUP,), writes="group"),
    Api(15, "describe_groups", 0, 6, 5, (rights.DESCRIBE_GROUPS,), only_reads=True, terse=True),
    Api(16, "list_groups", 0, 5, 3, rights.LIST_GROUPS, only_reads=True),
    Api(17, "sasl_handshake", 0, 1, 2, rights.NOTHING, before_login=True),
    Api(18, "api_versions", 0, 5, 3, rights.NOTHING, place="both"),
    Api(19, "create_topics", 2, 7, 5, rights.CREATE_TOPICS, place="decides", terse=True),
    Api(20, "delete_topics", 1, 6, 4, rights.DELETE_TOPICS, place="decides", terse=True),
    Api(21, "delete_records", 0, 2, 2, (rights.each("TOPIC", "DELETE"),), when_failed=(("low_watermark", -1),)),
    Api(22, "init_producer_id", 0, 5, 2, rights.INIT_PRODUCER_ID,
        writes="transaction", knows_fenced_from=4, when_failed=(("producer_epoch", -1),)),
    Api(23, "offset_for_leader_epoch", 2, 4, 4, (rights.each("TOPIC", "DESCRIBE", unless="CLUSTER_ACTION"),)),
    Api(24, "add_partitions_to_txn", 0, 5, 3, rights.ADD_PARTITIONS_TO_TXN,
        writes="transaction", own_form_until=3, knows_fenced_from=2),
    Api(25, "add_offsets_to_txn", 0, 4, 3, (rights.WRITE_TRANSACTION, rights.READ_GROUP),
        writes="transaction", knows_fenced_from=2),
    Api(26, "end_txn", 0, 5, 3, (rights.WRITE_TRANSACTION,), writes="transaction", knows_fenced_from=2),
    Api(27, "write_txn_markers", 1, 2, 1, (rights.whole("CLUSTER", "ALTER", "CLUSTER_ACTION"),), writes="topic"),
    Api(28, "txn_offset_commit", 0, 6, 3, (rights.WRITE_TRANSACTION, rights.READ_GROUP, rights.each("TOPIC", "READ")),
        writes="group"),
    Api(29, "describe_acls", 1, 3, 2, rights.DESCRIBE, place="both", feature="authorizer"),
    Api(30, "create_acls", 1, 3, 2, rights.ALTER, place="decides", feature="authorizer"),
    Api(31, "delete_acls", 1, 3, 2, rights.ALTER, place="decides", feature="authorizer"),
    Api(32, "describe_configs", 1, 4, 4, rights.resources("DESCRIBE_CONFIGS", "described_resources")),
    Api(33, "alter_configs", 0, 2, 2, rights.resources("ALTER_CONFIGS", "changed_resources"),
        place="decides", terse=True),
    Api(34, "alter_replica_log_dirs", 1, 2, 2, rights.ALTER),
    Api(35, "describe_log_dirs", 1, 5, 2, rights.DESCRIBE),
    Api(36, "sasl_authenticate", 0, 2, 2, rights.NOTHING, before_login=True),
    Api(37, "create_partitions", 0, 3, 2, (rights.each("TOPIC", "ALTER"),), place="decides", terse=True),
    Api(38, "create_delegation_token", 1, 3, 2, rights.CREATE_DELEGATION_TOKEN,
        place="decides", feature="tokens"),
    Api(39, "renew_delegation_token", 1, 2, 2, rights.NOTHING, place="decides", feature="tokens"),
    Api(40, "expire_delegation_token", 1, 2, 2, rights.NOTHING, place="decides", feature="tokens"),
    Api(41, "describe_delegation_token", 1, 3, 2, rights.DESCRIBE_DELEGATION_TOKEN, feature="tokens"),
    Api(42, "delete_groups", 0, 3, 2, (rights.each("GROUP", "DELETE"),), writes="group", terse=True),
    Api(43, "elect_leaders", 0, 2, 2, rights.ALTER, place="decides", fails_everywhere=True, terse=True),
    Api(44, "incremental_alter_configs", 0, 1, 1, rights.resources("ALTER_CONFIGS", "changed_resources"),
        place="decides", terse=True),
    Api(45, "alter_partition_reassignments", 0, 1, 0, rights.ALTER,
        place="decides", fails_everywhere=True, terse=True),
    Api(46, "list_partition_reassignments", 0, 0, 0, rights.DESCRIBE, place="decides"),
    Api(47, "offset_delete", 0, 0, 1, (rights.whole("GROUP", "DELETE"), rights.each("TOPIC", "READ")), writes="group"),
    Api(48, "describe_client_quotas", 0, 1, 1, (rights.whole("CLUSTER", "DESCRIBE_CONFIGS"),),
        when_failed=(("entries", None),)),
    Api(49, "alter_client_quotas", 0, 1, 1, (rights.whole("CLUSTER", "ALTER_CONFIGS"),), place="decides"),
    Api(50, "describe_user_scram_credentials", 0, 0, 0, rights.DESCRIBE,
        fails_everywhere=True, terse=True, when_failed=(("user", ""),)),
    Api(51, "alter_user_scram_credentials", 0, 0, 0, rights.ALTER, place="decides", terse=True),
    Api(55, "describe_quorum", 0, 2, 0, rights.DESCRIBE, place="decides"),
    Api(57, "update_features", 0, 2, 0, rights.ALTER, place="decides"),
    Api(60, "describe_cluster", 0, 2, 0, rights.DESCRIBE_CLUSTER),
    Api(61, "describe_producers", 0, 0, 0, (rights.each("TOPIC", "READ"),), terse=True),
    Api(64, "unregister_broker", 0, 0, 0, rights.ALTER, place="decides"),
    Api(65, "describe_transactions", 0, 0, 0, rights.DESCRIBE_TRANSACTIONS,
        only_reads=True, when_failed=(("transaction_start_time", datetime(1970, 1, 1, tzinfo=UTC)),)),
    Api(66, "list_transactions", 0, 2, 0, rights.LIST_TRANSACTIONS, only_reads=True),
    Api(68, "consumer_group_heartbeat", 0, 1, 0, rights.CONSUMER_GROUP_HEARTBEAT,
        writes="group", feature="consumer", repeats=True, terse=True),
    Api(69, "consumer_group_describe", 0, 1, 0, (rights.DESCRIBE_GROUPS, rights.OF_MEMBERS),
        feature="consumer", only_reads=True, terse=True),
    # Kafka lists the telemetry APIs only where a ClientTelemetry plugin is set (KIP-714), yet answers them; here a
    # subscription is what makes them known.
    Api(71, "get_telemetry_subscriptions", 0, 0, 0, rights.NOTHING, advertised=False, feature="telemetry"),
    Api(72, "push_telemetry", 0, 0, 0, rights.NOTHING, advertised=False, feature="telemetry"),
    Api(74, "list_config_resources", 0, 1, 0, (rights.whole("CLUSTER", "DESCRIBE_CONFIGS"),)),
    Api(75, "describe_topic_partitions", 0, 0, 0, (rights.own("TOPIC", "DESCRIBE", rights.OR_LEFT_OUT),)),
    Api(76, "share_group_heartbeat", 1, 1, 0, (rights.READ_GROUP, rights.SUBSCRIBED),
        writes="group", feature="share", terse=True),
    Api(77, "share_group_describe", 1, 1, 0, (rights.DESCRIBE_GROUPS, rights.OF_MEMBERS),
        feature="share", only_reads=True, terse=True),
    Api(78, "share_fetch", 1, 2, 0, (rights.READ_GROUP, rights.SHARED_TOPICS),
        writes="share", feature="share", terse=True),
    Api(79, "share_acknowledge", 1, 2, 0, (rights.READ_GROUP, rights.SHARED_TOPICS),
        writes="share", feature="share", terse=True),
    Api(80, "add_raft_voter", 0, 1, 0, rights.ALTER, place="decides"),
    Api(81, "remove_raft_voter", 0, 0, 0, rights.ALTER, place="decides"),
    Api(83, "initialize_share_group_state", 0, 0, 0, rights.ACTION, writes="share"),
    Api(84, "read_share_group_state", 0, 0, 0, rights.ACTION),
    Api(85, "write_share_group_state", 0, 1, 0, rights.ACTION, writes="share"),
    Api(86, "delete_share_group_state", 0, 0, 0, rights.ACTION, writes="share"),
    Api(87, "read_share_group_state_summary", 0, 1, 0, rights.ACTION),
    Api(88, "streams_group_heartbeat", 0, 1, 0, rights.STREAMS_GROUP_HEARTBEAT,
        writes="group", feature="streams", terse=True,
        when_failed=(("status", ()), ("acceptable_recovery_offset_lag", -1))),
    Api(89, "streams_group_describe", 0, 1, 0, rights.STREAMS_GROUP_DESCRIBE,
        feature="streams", only_reads=True, terse=True),
    Api(90, "describe_share_group_offsets", 0, 1, 0, rights.DESCRIBE_SHARE_GROUP_OFFSETS, feature="share", terse=True),
    Api(91, "alter_share_group_offsets", 0, 0, 0, (rights.READ_GROUP, rights.SHARED_TOPICS),
        writes="group", feature="share"),
    Api(92, "delete_share_group_offsets", 0, 0, 0, (rights.whole("GROUP", "DELETE"), rights.SHARED_TOPICS),
        writes="group", feature="share"),
    Api(93, "streams_group_topology_description_update", 0, 0, 0, (rights.READ_GROUP,)),
    Api(94, "unregister_controller", 0, 0, 0, rights.ALTER, place="decides"),
)

OWN_TABLE: tuple[Api, ...] = (
    Api(31001, "explain", 0, 0, 0, rights.ALTER, only_reads=True),
    Api(31002, "create_backup", 0, 0, 0, rights.ALTER),
    Api(31003, "ask_registry", 0, 0, 0, rights.ACTION),
)
"""APIs that Kafka has not, for the `odradek` command and other nodes of ours, which alone see them in ApiVersions.

The keys are far from Kafka's own. The messages are in `protocol.newer`.
"""

CONTROLLER_ONLY: tuple[Api, ...] = (
    Api(56, "alter_partition", 3, 3, 0, rights.ACTION, place="controller"),
    Api(58, "envelope", 0, 0, 0, rights.ACTION, place="controller"),
    Api(59, "fetch_snapshot", 0, 1, 0, rights.ACTION, place="controller", only_reads=True),
    Api(62, "broker_registration", 4, 4, 0, rights.ACTION, place="controller"),
    Api(63, "broker_heartbeat", 0, 2, 0, rights.ACTION, place="controller"),
    Api(67, "allocate_producer_ids", 0, 0, 0, rights.ACTION, place="controller"),
    Api(73, "assign_replicas_to_dirs", 0, 0, 0, rights.ACTION, place="controller"),
)
"""APIs that a controller serves to the other nodes of its cluster, on its own listener alone."""
# fmt: on

CONTROLLER_TABLE: tuple[Api, ...] = tuple(
    sorted((*CONTROLLER_ONLY, *(api for api in API_TABLE if api.place != "broker")), key=lambda api: api.key)
)
"""What is served on a controller's listener."""

API_BY_KEY: dict[int, Api] = {api.key: api for api in (*API_TABLE, *OWN_TABLE, *CONTROLLER_ONLY)}
API_BY_NAME: dict[str, Api] = {api.name: api for api in API_BY_KEY.values()}


@cache
def asked_for(name: str, resource: Resource) -> tuple[tuple[Operation, ...], Operation | None]:
    """The operations on a resource of which the API asks for one, and one on the cluster in their place.

    What it asks for first, where it asks for more. Raises LookupError if it asks for nothing on such a resource.
    """
    for right in API_BY_NAME[name].rights:
        if resource in (right.on, *right.more):
            return right.operations, right.unless
    raise LookupError(f"{name} asks for nothing on a {resource}")
