"""The rights that the APIs need, as the rows of `table` say it.

An operation and a resource are named as `metadata.acls` names them. The guard of `broker.authorization` obeys the
rights, and the page of the docs about ACLs is written from them.

Sources: Kafka's `KafkaApis`, `ControllerApis`, `AclApis`, `ConfigHelper` and `DescribeTopicPartitionsRequestHandler`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operation = Literal[
    "ALTER",
    "ALTER_CONFIGS",
    "CLUSTER_ACTION",
    "CREATE",
    "CREATE_TOKENS",
    "DELETE",
    "DESCRIBE",
    "DESCRIBE_CONFIGS",
    "DESCRIBE_TOKENS",
    "IDEMPOTENT_WRITE",
    "READ",
    "WRITE",
]
Resource = Literal["CLUSTER", "DELEGATION_TOKEN", "GROUP", "TOPIC", "TRANSACTIONAL_ID", "USER"]
"""Names of `metadata.acls.AclOperation` and `ResourceType`."""


@dataclass(frozen=True, slots=True)
class Right:
    """The right that a request needs: one of these operations on resources of one type.

    Attributes:
        how: `whole`: otherwise the request is refused as a whole. `each`: each item of a list needs it, and those
            without are answered with an error, as if they had been asked alone. `handler`: the handler checks it, or a
            function that `rule` names.
        what: the resources, for the page of the docs.
        rule: a function of `broker.authorization.names` that finds the resources, where the schema does not say them.
        more: other types of resources that `rule` may find.
        unless: an operation on the cluster that makes all others needless.
        shows_less: a client without the right gets no error, but a smaller answer.
        in_turns: a list that the handler answers item by item, in a list of the same name: many are handed to it some
            at a time, so that other clients need not wait.
    """

    operations: tuple[Operation, ...]
    on: Resource
    how: Literal["whole", "each", "handler"]
    what: str
    rule: str = ""
    more: tuple[Resource, ...] = ()
    unless: Operation | None = None
    shows_less: bool = False
    in_turns: str = ""


NOTHING: tuple[Right, ...] = ()
"""The rights of an API that is open to every client that has come in."""

_CALLED: dict[Resource, str] = {
    "CLUSTER": "cluster",
    "GROUP": "group",
    "TOPIC": "topic",
    "TRANSACTIONAL_ID": "transactional id",
}


def whole(on: Resource, *operations: Operation, what: str = "", rule: str = "") -> Right:
    return Right(operations, on, "whole", what or f"the {_CALLED[on]}", rule)


def each(
    on: Resource,
    operation: Operation,
    *,
    what: str = "",
    rule: str = "",
    more: tuple[Resource, ...] = (),
    unless: Operation | None = None,
) -> Right:
    return Right((operation,), on, "each", what or f"each {_CALLED[on]}", rule, more, unless)


def own(
    on: Resource, operation: Operation, what: str, *, rule: str = "", shows_less: bool = False, in_turns: str = ""
) -> Right:
    return Right((operation,), on, "handler", what, rule, shows_less=shows_less, in_turns=in_turns)


READ_GROUP = whole("GROUP", "READ")
DESCRIBE_GROUPS = each("GROUP", "DESCRIBE")
WRITE_TRANSACTION = whole("TRANSACTIONAL_ID", "WRITE")
ALTER = (whole("CLUSTER", "ALTER"),)
DESCRIBE = (whole("CLUSTER", "DESCRIBE"),)
ACTION = (whole("CLUSTER", "CLUSTER_ACTION"),)
SUBSCRIBED = own("TOPIC", "DESCRIBE", "each topic that is subscribed to")
OF_MEMBERS = own("TOPIC", "DESCRIBE", "each topic that a member has; one without right hides the whole group")
SHARED_TOPICS = own("TOPIC", "READ", "each topic")
OR_LEFT_OUT = "each topic; others are left out if all are asked for"


def resources(operation: Operation, rule: str) -> tuple[Right, ...]:
    what = "each topic and group; for brokers, their loggers and client metrics the cluster"
    return (each("TOPIC", operation, what=what, rule=rule, more=("GROUP", "CLUSTER")),)


PRODUCE = (
    whole(
        "TRANSACTIONAL_ID",
        "WRITE",
        what="the transactional id, if a batch is transactional",
        rule="produced_transaction",
    ),
    each("TOPIC", "WRITE", rule="produced_topics"),
)
FETCH = (
    own("TOPIC", "READ", "each topic of a consumer"),
    own("CLUSTER", "CLUSTER_ACTION", "the cluster, for a replica"),
)
METADATA = (
    own("TOPIC", "DESCRIBE", OR_LEFT_OUT, rule="distinct_topics", in_turns="topics"),
    own("TOPIC", "CREATE", "each topic that is created by being asked for, or the cluster"),
)
OFFSET_FETCH = (
    own("GROUP", "DESCRIBE", "each group", in_turns="groups"),
    own("TOPIC", "DESCRIBE", OR_LEFT_OUT),
)
FIND_COORDINATOR = (
    whole("GROUP", "DESCRIBE", what="the group (until version 3)", rule="coordinator_group"),
    whole(
        "TRANSACTIONAL_ID", "DESCRIBE", what="the transactional id (until version 3)", rule="coordinator_transaction"
    ),
    whole("CLUSTER", "CLUSTER_ACTION", what="the cluster, for keys of share groups", rule="share_coordinator"),
    each(
        "GROUP",
        "DESCRIBE",
        what="each group or transactional id (version 4)",
        rule="coordinators",
        more=("TRANSACTIONAL_ID",),
    ),
)
LIST_GROUPS = (
    own("CLUSTER", "DESCRIBE", "the cluster", shows_less=True),
    own("GROUP", "DESCRIBE", "otherwise each group; others are left out", shows_less=True),
)
CREATE_TOPICS = (
    each("TOPIC", "CREATE", rule="created_topics", unless="CREATE"),
    own("TOPIC", "DESCRIBE_CONFIGS", "each topic, or its configurations are not answered", shows_less=True),
)
DELETE_TOPICS = (
    each("TOPIC", "DELETE", rule="deleted_topics", unless="DELETE"),
    own("TOPIC", "DESCRIBE", "each topic, or its name is not answered, nor whether it exists", shows_less=True),
)
INIT_PRODUCER_ID = (
    WRITE_TRANSACTION,
    own("CLUSTER", "IDEMPOTENT_WRITE", "without one the cluster, or WRITE on any topic", rule="idempotent_write"),
)
ADD_PARTITIONS_TO_TXN = (
    own("TRANSACTIONAL_ID", "WRITE", "the transactional id (until version 3)"),
    own("TOPIC", "WRITE", "each topic (until version 3)"),
    whole("CLUSTER", "CLUSTER_ACTION", what="the cluster (from version 4)", rule="between_brokers_only"),
)
DESCRIBE_DELEGATION_TOKEN = (
    own("DELEGATION_TOKEN", "DESCRIBE", "each token of others", shows_less=True),
    own("USER", "DESCRIBE_TOKENS", "or its owner; other tokens are left out", shows_less=True),
)
DESCRIBE_CLUSTER = (
    own("CLUSTER", "DESCRIBE", "the cluster, or what may be done to it is not answered", shows_less=True),
)
DESCRIBE_TRANSACTIONS = (
    each("TRANSACTIONAL_ID", "DESCRIBE"),
    own("TOPIC", "DESCRIBE", "each topic of the transaction; others are left out", shows_less=True),
)
LIST_TRANSACTIONS = (
    own("TRANSACTIONAL_ID", "DESCRIBE", "each transactional id; others are left out", shows_less=True),
)
CONSUMER_GROUP_HEARTBEAT = (
    READ_GROUP,
    own("TOPIC", "DESCRIBE", "each topic that is subscribed to by name; others are left out of an expression"),
)
STREAMS_GROUP_HEARTBEAT = (
    READ_GROUP,
    own("TOPIC", "DESCRIBE", "each topic that the topology names, when joining"),
    own("CLUSTER", "CREATE", "to make internal topics: the cluster", shows_less=True),
    own("TOPIC", "CREATE", "otherwise each of them", shows_less=True),
)
STREAMS_GROUP_DESCRIBE = (
    DESCRIBE_GROUPS,
    own("TOPIC", "DESCRIBE", "each topic that the topology names; one without right hides the whole group"),
)
DESCRIBE_SHARE_GROUP_OFFSETS = (
    own("GROUP", "DESCRIBE", "each group", in_turns="groups"),
    own("TOPIC", "DESCRIBE", OR_LEFT_OUT),
)
CREATE_DELEGATION_TOKEN = (own("USER", "CREATE_TOKENS", "the owner, if that is not the client"),)
