"""What each API asks of the authorizer: the one table that the guard obeys and that `docs/acls.md` is written from.

Sources: Kafka's `KafkaApis`, `ControllerApis`, `AclApis`, `ConfigHelper` and `DescribeTopicPartitionsRequestHandler`. A
row has the checks in their order. An API with the row NOTHING is open to every client that has come in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from types import MappingProxyType

from broker.authorization.checks import Check, Each, Own, Whole
from broker.authorization.names import (
    Resources,
    between_brokers_only,
    by_name,
    changed_resources,
    committed_topics,
    coordinator_group,
    coordinator_transaction,
    coordinators,
    created_topics,
    deleted_topics,
    described_resources,
    distinct_topics,
    field,
    idempotent_write,
    produced_topics,
    produced_transaction,
    share_coordinator,
    the_cluster,
    transactional_id_if_any,
)
from metadata.acls import AclOperation, ResourceType

ALTER, ALTER_CONFIGS, CLUSTER_ACTION, CREATE, CREATE_TOKENS, DELETE, DESCRIBE, DESCRIBE_CONFIGS = (
    AclOperation.ALTER,
    AclOperation.ALTER_CONFIGS,
    AclOperation.CLUSTER_ACTION,
    AclOperation.CREATE,
    AclOperation.CREATE_TOKENS,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
)
DESCRIBE_TOKENS, IDEMPOTENT_WRITE, READ, WRITE = (
    AclOperation.DESCRIBE_TOKENS,
    AclOperation.IDEMPOTENT_WRITE,
    AclOperation.READ,
    AclOperation.WRITE,
)
CLUSTER, DELEGATION_TOKEN, GROUP, TOPIC, TRANSACTIONAL_ID, USER = (
    ResourceType.CLUSTER,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)

Row = tuple[Check, ...]

NOTHING: Row = ()

_GROUP_ID = field("group_id")
_TRANSACTIONAL_ID = field("transactional_id")


def _cluster(*operations: AclOperation) -> Whole:
    return Whole(operations, CLUSTER, the_cluster, "the cluster")


def _group(operation: AclOperation) -> Whole:
    return Whole((operation,), GROUP, _GROUP_ID, "the group")


def _transactional_id() -> Whole:
    return Whole((WRITE,), TRANSACTIONAL_ID, _TRANSACTIONAL_ID, "the transactional id")


def _topics(operation: AclOperation, answered: str = "topics") -> Each:
    return Each(operation, "topics", answered, by_name("topics", TOPIC), (TOPIC,), "each topic")


def _groups(operation: AclOperation, asked: str, answered: str) -> Each:
    return Each(operation, asked, answered, by_name(asked, GROUP, None), (GROUP,), "each group")


def _resources(operation: AclOperation, answered: str, names: Resources) -> Each:
    shown = "each topic and group; for brokers, their loggers and client metrics the cluster"
    return Each(operation, "resources", answered, names, (TOPIC, GROUP, CLUSTER), shown)


def _committed_topics() -> Each:
    return Each(READ, "topics", "topics", committed_topics, (TOPIC,), "each topic")


CHECKS: Mapping[str, Row] = MappingProxyType(
    {
        # records
        "produce": (
            Whole(
                (WRITE,), TRANSACTIONAL_ID, produced_transaction, "the transactional id, if a batch is transactional"
            ),
            Each(WRITE, "topics", "topics", produced_topics, (TOPIC,), "each topic"),
        ),
        "fetch": (
            Own((READ,), TOPIC, "each topic of a consumer"),
            Own((CLUSTER_ACTION,), CLUSTER, "the cluster, for a replica"),
        ),
        "list_offsets": (_topics(DESCRIBE),),
        "offset_for_leader_epoch": (
            Each(
                DESCRIBE,
                "topics",
                "topics",
                by_name("topics", TOPIC, "topic"),
                (TOPIC,),
                "each topic",
                unless=CLUSTER_ACTION,
            ),
        ),
        "delete_records": (_topics(DELETE),),
        # groups
        "find_coordinator": (
            Whole((DESCRIBE,), GROUP, coordinator_group, "the group (until version 3)"),
            Whole((DESCRIBE,), TRANSACTIONAL_ID, coordinator_transaction, "the transactional id (until version 3)"),
            Whole((CLUSTER_ACTION,), CLUSTER, share_coordinator, "the cluster, for keys of share groups"),
            Each(
                DESCRIBE,
                "coordinator_keys",
                "coordinators",
                coordinators,
                (GROUP, TRANSACTIONAL_ID),
                "each group or transactional id (version 4)",
            ),
        ),
        "join_group": (_group(READ),),
        "sync_group": (_group(READ),),
        "heartbeat": (_group(READ),),
        "leave_group": (_group(READ),),
        "consumer_group_heartbeat": (
            _group(READ),
            Own((DESCRIBE,), TOPIC, "each topic that is subscribed to by name; others are left out of an expression"),
        ),
        "offset_commit": (_group(READ), _committed_topics()),
        "offset_fetch": (
            Own((DESCRIBE,), GROUP, "each group", items=attrgetter("groups"), asked="groups"),
            Own((DESCRIBE,), TOPIC, "each topic; others are left out if all are asked for"),
        ),
        "offset_delete": (_group(DELETE), _topics(READ)),
        "list_groups": (
            Own((DESCRIBE,), CLUSTER, "the cluster", shows_less=True),
            Own((DESCRIBE,), GROUP, "otherwise each group; others are left out", shows_less=True),
        ),
        "describe_groups": (_groups(DESCRIBE, "groups", "groups"),),
        "consumer_group_describe": (
            _groups(DESCRIBE, "group_ids", "groups"),
            Own((DESCRIBE,), TOPIC, "each topic that a member has; one without right hides the whole group"),
        ),
        "delete_groups": (_groups(DELETE, "groups_names", "results"),),
        # transactions
        "init_producer_id": (
            Whole((WRITE,), TRANSACTIONAL_ID, transactional_id_if_any, "the transactional id"),
            Own((IDEMPOTENT_WRITE,), CLUSTER, "without one the cluster, or WRITE on any topic", idempotent_write),
        ),
        "add_partitions_to_txn": (
            Own((WRITE,), TRANSACTIONAL_ID, "the transactional id (until version 3)"),
            Own((WRITE,), TOPIC, "each topic (until version 3)"),
            Whole((CLUSTER_ACTION,), CLUSTER, between_brokers_only, "the cluster (from version 4)"),
        ),
        "add_offsets_to_txn": (_transactional_id(), _group(READ)),
        "txn_offset_commit": (_transactional_id(), _group(READ), _committed_topics()),
        "end_txn": (_transactional_id(),),
        "write_txn_markers": (_cluster(ALTER, CLUSTER_ACTION),),
        "describe_producers": (_topics(READ),),
        "describe_transactions": (
            Each(
                DESCRIBE,
                "transactional_ids",
                "transaction_states",
                by_name("transactional_ids", TRANSACTIONAL_ID, None),
                (TRANSACTIONAL_ID,),
                "each transactional id",
            ),
            Own((DESCRIBE,), TOPIC, "each topic of the transaction; others are left out", shows_less=True),
        ),
        "list_transactions": (
            Own((DESCRIBE,), TRANSACTIONAL_ID, "each transactional id; others are left out", shows_less=True),
        ),
        # topics
        "metadata": (
            Own(
                (DESCRIBE,),
                TOPIC,
                "each topic; others are left out if all are asked for",
                items=distinct_topics,
                asked="topics",
            ),
            Own((CREATE,), TOPIC, "each topic that is created by being asked for, or the cluster"),
        ),
        "describe_topic_partitions": (Own((DESCRIBE,), TOPIC, "each topic; others are left out if all are asked for"),),
        "create_topics": (
            Each(CREATE, "topics", "topics", created_topics, (TOPIC,), "each topic", unless=CREATE),
            Own((DESCRIBE_CONFIGS,), TOPIC, "each topic, or its configurations are not answered", shows_less=True),
        ),
        "delete_topics": (
            Each(DELETE, "topics", "responses", deleted_topics, (TOPIC,), "each topic", unless=DELETE),
            Own((DESCRIBE,), TOPIC, "each topic, or its name is not answered, nor whether it exists", shows_less=True),
        ),
        "create_partitions": (_topics(ALTER, "results"),),
        "alter_partition_reassignments": (_cluster(ALTER),),
        "list_partition_reassignments": (_cluster(DESCRIBE),),
        "elect_leaders": (_cluster(ALTER),),
        # configurations, quotas, users, features
        "describe_configs": (_resources(DESCRIBE_CONFIGS, "results", described_resources),),
        "alter_configs": (_resources(ALTER_CONFIGS, "responses", changed_resources),),
        "incremental_alter_configs": (_resources(ALTER_CONFIGS, "responses", changed_resources),),
        "list_config_resources": (_cluster(DESCRIBE_CONFIGS),),
        "describe_client_quotas": (_cluster(DESCRIBE_CONFIGS),),
        "alter_client_quotas": (_cluster(ALTER_CONFIGS),),
        "describe_user_scram_credentials": (_cluster(DESCRIBE),),
        "alter_user_scram_credentials": (_cluster(ALTER),),
        "update_features": (_cluster(ALTER),),
        # the cluster and its nodes
        "describe_cluster": (
            Own((DESCRIBE,), CLUSTER, "the cluster, or what may be done to it is not answered", shows_less=True),
        ),
        "describe_quorum": (_cluster(DESCRIBE),),
        "add_raft_voter": (_cluster(ALTER),),
        "remove_raft_voter": (_cluster(ALTER),),
        "unregister_broker": (_cluster(ALTER),),
        "unregister_controller": (_cluster(ALTER),),
        "alter_replica_log_dirs": (_cluster(ALTER),),
        "describe_log_dirs": (_cluster(DESCRIBE),),
        # ACLs and delegation tokens
        "describe_acls": (_cluster(DESCRIBE),),
        "create_acls": (_cluster(ALTER),),
        "delete_acls": (_cluster(ALTER),),
        "create_delegation_token": (Own((CREATE_TOKENS,), USER, "the owner, if that is not the client"),),
        "renew_delegation_token": NOTHING,
        "expire_delegation_token": NOTHING,
        "describe_delegation_token": (
            Own((DESCRIBE,), DELEGATION_TOKEN, "each token of others", shows_less=True),
            Own((DESCRIBE_TOKENS,), USER, "or its owner; other tokens are left out", shows_less=True),
        ),
        # share groups
        "share_group_heartbeat": (_group(READ), Own((DESCRIBE,), TOPIC, "each topic that is subscribed to")),
        "share_group_describe": (
            _groups(DESCRIBE, "group_ids", "groups"),
            Own((DESCRIBE,), TOPIC, "each topic that a member has; one without right hides the whole group"),
        ),
        "share_fetch": (_group(READ), Own((READ,), TOPIC, "each topic")),
        "share_acknowledge": (_group(READ), Own((READ,), TOPIC, "each topic")),
        "describe_share_group_offsets": (
            Own((DESCRIBE,), GROUP, "each group", items=attrgetter("groups"), asked="groups"),
            Own((DESCRIBE,), TOPIC, "each topic; others are left out if all are asked for"),
        ),
        "alter_share_group_offsets": (_group(READ), Own((READ,), TOPIC, "each topic")),
        "delete_share_group_offsets": (_group(DELETE), Own((READ,), TOPIC, "each topic")),
        "initialize_share_group_state": (_cluster(CLUSTER_ACTION),),
        "read_share_group_state": (_cluster(CLUSTER_ACTION),),
        "write_share_group_state": (_cluster(CLUSTER_ACTION),),
        "delete_share_group_state": (_cluster(CLUSTER_ACTION),),
        "read_share_group_state_summary": (_cluster(CLUSTER_ACTION),),
        # streams groups
        "streams_group_heartbeat": (
            _group(READ),
            Own((DESCRIBE,), TOPIC, "each topic that the topology names, when joining"),
            Own((CREATE,), CLUSTER, "to make internal topics: the cluster", shows_less=True),
            Own((CREATE,), TOPIC, "otherwise each of them", shows_less=True),
        ),
        "streams_group_describe": (
            _groups(DESCRIBE, "group_ids", "groups"),
            Own((DESCRIBE,), TOPIC, "each topic that the topology names; one without right hides the whole group"),
        ),
        "streams_group_topology_description_update": (_group(READ),),
        # what clients need before anything else, and what they tell of themselves
        "api_versions": NOTHING,
        "sasl_handshake": NOTHING,
        "sasl_authenticate": NOTHING,
        "get_telemetry_subscriptions": NOTHING,
        "push_telemetry": NOTHING,
        # what Kafka has not
        "explain": (_cluster(ALTER),),
        "create_backup": (_cluster(ALTER),),
    }
)
"""By the API's name in `protocol.api.table`, on a broker's listener."""

CONTROLLER_CHECKS: Mapping[str, Row] = MappingProxyType(
    {
        **CHECKS,
        "fetch": (_cluster(CLUSTER_ACTION),),
        "fetch_snapshot": (_cluster(CLUSTER_ACTION),),
        "alter_partition": (_cluster(CLUSTER_ACTION),),
        "envelope": (_cluster(CLUSTER_ACTION),),
        "broker_registration": (_cluster(CLUSTER_ACTION),),
        "broker_heartbeat": (_cluster(CLUSTER_ACTION),),
        "allocate_producer_ids": (_cluster(CLUSTER_ACTION),),
        "assign_replicas_to_dirs": (_cluster(CLUSTER_ACTION),),
    }
)
"""As above, on a controller's listener: a request that came in an Envelope is checked for the client that sent it."""

DECIDED_BY_CONTROLLER = frozenset(
    {
        "add_raft_voter",
        "alter_client_quotas",
        "alter_configs",
        "alter_partition_reassignments",
        "alter_user_scram_credentials",
        "create_acls",
        "create_delegation_token",
        "create_partitions",
        "create_topics",
        "delete_acls",
        "delete_topics",
        "elect_leaders",
        "expire_delegation_token",
        "incremental_alter_configs",
        "list_partition_reassignments",
        "remove_raft_voter",
        "renew_delegation_token",
        "unregister_broker",
        "unregister_controller",
        "update_features",
    }
)
"""A broker whose controllers are other nodes leaves these checks to them: it sends the requests on in an Envelope."""


@cache
def asked_for(api: str, resource_type: ResourceType) -> tuple[tuple[AclOperation, ...], AclOperation | None]:
    """The operations on a resource of this type of which the API asks for one, and one on the cluster in their place.

    What it asks for first, where it asks for more. Raises LookupError if it asks for nothing on such a resource.
    """
    for check in CHECKS[api]:
        if isinstance(check, Each):
            if resource_type in check.resource_types:
                return (check.operation,), check.unless
        elif check.resource_type is resource_type:
            return check.operations, None
    raise LookupError(f"{api} asks for nothing on a {resource_type.name}")
