"""The rights that each page and action of the console needs: those of the APIs that show or do the same.

No operation is named here: those of a right are in the row of its API (`table.py`). A page without a line here is not
served, and what its line does not name, its code cannot ask about (`broker.console.ask`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from metadata.acls import ResourceType

CLUSTER, DELEGATION_TOKEN, GROUP, TOPIC, TRANSACTIONAL_ID, USER = (
    ResourceType.CLUSTER,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)

SIZES = "describe_log_dirs"
"""It tells of all folders and topics of a broker, and how large they are."""

EVERYTHING = "create_acls"
"""Who may make ACLs could give himself any right: he may see what is about all users, for which Kafka has no API."""


class PageRight(NamedTuple):
    """The right that an API needs for a resource of this type.

    `named` is the parameter with the resource's name; without one it is the cluster, or each resource that is shown.
    `what` is shown or done with this right.
    """

    api: str
    resource_type: ResourceType
    what: str = ""
    named: str | None = None


class PageRights(NamedTuple):
    """Without all rights of `needed` a request is refused; without one of `shown` the page shows less."""

    needed: tuple[PageRight, ...] = ()
    shown: tuple[PageRight, ...] = ()


NOTHING = PageRights()

NEAR_NAMES = PageRight(SIZES, CLUSTER, "topics with a name that is near, if there is none of this name")
WHY = PageRight(EVERYTHING, CLUSTER, "what was found about it (explain)")
READS = PageRights((PageRight("fetch", TOPIC, named="topic"),), (NEAR_NAMES,))
MEMBERS = PageRight("consumer_group_describe", TOPIC, "members of another than a classic group: all its topics")
ADMINISTERS = PageRight(EVERYTHING, CLUSTER)
OF_SUBJECTS = PageRight("metadata", TOPIC, "subjects of this topic: schemas")
"""The node's registry asks the authorizer itself (`broker.registry.rights`), for the same operations."""

ASKED_BY_PAGES: Mapping[str, PageRights] = MappingProxyType(
    {
        "": PageRights((), (PageRight(SIZES, CLUSTER, "all of it: addresses, folders, rates, counts"),)),
        "topics": PageRights(
            (),
            (
                PageRight("metadata", TOPIC, "each topic"),
                PageRight("list_offsets", TOPIC, "how many records it has"),
                PageRight("describe_configs", TOPIC, "how it is cleaned up"),
                PageRight(SIZES, CLUSTER, "sizes, and the bytes that were produced"),
            ),
        ),
        "topic": PageRights(
            (PageRight("describe_topic_partitions", TOPIC, named="name"),),
            (
                PageRight("list_offsets", TOPIC, "offsets"),
                PageRight("describe_configs", TOPIC, "its configuration"),
                PageRight("describe_producers", TOPIC, "how many transactions are open"),
                PageRight(
                    SIZES, CLUSTER, "sizes and segments; topics with a name that is near, if there is none of this name"
                ),
                WHY,
            ),
        ),
        "new-topic": PageRights((), (PageRight("describe_configs", CLUSTER, "what this broker has as defaults"),)),
        "topic-configs": PageRights((PageRight("describe_configs", TOPIC, named="name"),), (NEAR_NAMES,)),
        "messages": READS,
        "message": READS,
        "tail": READS,
        "produce": PageRights(
            (PageRight("produce", TOPIC, named="topic"),),
            (PageRight("fetch", TOPIC, "the record that is to be sent again"), NEAR_NAMES),
        ),
        "download": READS,
        "schemas": PageRights((), (OF_SUBJECTS,)),
        "schema": PageRights((), (OF_SUBJECTS,)),
        "groups": PageRights(
            (),
            (
                PageRight("list_groups", CLUSTER, "all groups"),
                PageRight("list_groups", GROUP, "without that, each group"),
                PageRight("describe_groups", GROUP, "how many members it has"),
                PageRight("consumer_group_describe", TOPIC, "the same of another than a classic group: all its topics"),
                PageRight("offset_fetch", GROUP, "its lag"),
                PageRight("offset_fetch", TOPIC, "the part of the lag that is in this topic"),
            ),
        ),
        "group": PageRights(
            (PageRight("describe_groups", GROUP, named="id"),),
            (
                PageRight("offset_fetch", GROUP, "offsets and lag"),
                PageRight("offset_fetch", TOPIC, "those in this topic, and who has its partitions"),
                MEMBERS,
                WHY,
            ),
        ),
        "transactions": PageRights(
            (),
            (
                PageRight("list_transactions", TRANSACTIONAL_ID, "each transactional id"),
                PageRight("describe_transactions", TOPIC, "how many partitions of this topic it has"),
                PageRight("describe_producers", TOPIC, "who holds what of this topic"),
            ),
        ),
        "transaction": PageRights(
            (PageRight("describe_transactions", TRANSACTIONAL_ID, named="id"),),
            (PageRight("describe_transactions", TOPIC, "its partitions of this topic"), WHY),
        ),
        "clients": PageRights((ADMINISTERS,)),
        "cluster": PageRights(
            (PageRight("describe_quorum", CLUSTER),),
            (PageRight("metadata", TOPIC, "the partitions of this topic that somebody should look at"),),
        ),
        "broker-configs": PageRights((PageRight("describe_configs", CLUSTER),)),
        "movements": PageRights(
            (PageRight("list_partition_reassignments", CLUSTER),),
            (PageRight(SIZES, CLUSTER, "how much of a partition has been copied"),),
        ),
        "tier": PageRights(
            (),
            (
                PageRight("list_offsets", TOPIC, "the tiered partitions of this topic"),
                PageRight(EVERYTHING, CLUSTER, "what may be wrong with this broker's remote storage"),
            ),
        ),
        "access": NOTHING,
        "acls": PageRights((PageRight("describe_acls", CLUSTER),)),
        "users": PageRights((PageRight("describe_user_scram_credentials", CLUSTER),)),
        "quotas": PageRights((PageRight("describe_client_quotas", CLUSTER),)),
        "tokens": PageRights(
            (),
            (
                PageRight("describe_delegation_token", DELEGATION_TOKEN, "each token that is another user's"),
                PageRight("describe_delegation_token", USER, "or all tokens of this owner"),
            ),
        ),
        "audit": PageRights((ADMINISTERS,)),
        "kit": PageRights((ADMINISTERS,)),
        "journal": PageRights((ADMINISTERS,)),
    }
)
"""By the page's path."""

ASKED_BY_ACTIONS: Mapping[str, PageRights] = MappingProxyType(
    {
        "produce-record": PageRights(
            (PageRight("produce", TOPIC, named="topic"),),
            (PageRight("fetch", TOPIC, "the record that was written"), NEAR_NAMES),
        ),
        "create-topic": PageRights((PageRight("create_topics", TOPIC, named="topic"),)),
        "add-partitions": PageRights((PageRight("create_partitions", TOPIC, named="topic"),)),
        "alter-topic-config": PageRights((PageRight("incremental_alter_configs", TOPIC, named="topic"),)),
        "register-schema": PageRights((), (PageRight("produce", TOPIC, "subjects of this topic"),)),
        "delete-schema": PageRights((), (PageRight("delete_topics", TOPIC, "subjects of this topic"),)),
        "set-schema-level": PageRights(
            (),
            (
                PageRight("incremental_alter_configs", TOPIC, "subjects of this topic"),
                PageRight("incremental_alter_configs", CLUSTER, "contexts, and all subjects"),
            ),
        ),
        "alter-broker-config": PageRights((PageRight("incremental_alter_configs", CLUSTER),)),
        "delete-topic": PageRights((PageRight("delete_topics", TOPIC, named="topic"),), (NEAR_NAMES,)),
        "truncate-topic": PageRights((PageRight("delete_records", TOPIC, named="topic"),), (NEAR_NAMES,)),
        "reset-offsets": PageRights(
            (
                PageRight("offset_commit", GROUP, named="group"),
                PageRight("describe_groups", GROUP, named="group"),
                PageRight("offset_commit", TOPIC, "each of its topics, or the one that is named", named="topic"),
            ),
            (
                PageRight("offset_fetch", TOPIC, "which topic it is that may not be reset"),
                MEMBERS,
            ),
        ),
        "delete-offsets": PageRights(
            (
                PageRight("offset_delete", GROUP, named="group"),
                PageRight("describe_groups", GROUP, named="group"),
                PageRight("offset_delete", TOPIC, named="topic"),
            )
        ),
        "delete-group": PageRights(
            (PageRight("delete_groups", GROUP, named="group"), PageRight("describe_groups", GROUP, named="group")),
            (MEMBERS,),
        ),
        "abort-transaction": PageRights(
            (
                PageRight("init_producer_id", TRANSACTIONAL_ID, named="transactional_id"),
                PageRight("describe_transactions", TRANSACTIONAL_ID, named="transactional_id"),
            )
        ),
        "move-replicas": PageRights((PageRight("alter_partition_reassignments", CLUSTER),), (NEAR_NAMES,)),
        "cancel-move": PageRights((PageRight("alter_partition_reassignments", CLUSTER),)),
        "elect-leaders": PageRights((PageRight("elect_leaders", CLUSTER),), (NEAR_NAMES,)),
        "add-acl": PageRights((PageRight("create_acls", CLUSTER),)),
        "delete-acl": PageRights((PageRight("delete_acls", CLUSTER),)),
        "set-password": PageRights((PageRight("alter_user_scram_credentials", CLUSTER),)),
        "delete-password": PageRights((PageRight("alter_user_scram_credentials", CLUSTER),)),
        "set-quota": PageRights((PageRight("alter_client_quotas", CLUSTER),)),
        "create-token": PageRights(
            (), (PageRight("create_delegation_token", USER, "a token of another owner than the user"),)
        ),
        "renew-token": NOTHING,
        "expire-token": NOTHING,
        "remove-fault": PageRights((ADMINISTERS,)),
        "advance-clock": PageRights((ADMINISTERS,)),
    }
)
"""By the path to which the form is sent."""
