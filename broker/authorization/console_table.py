"""What each page and action of the console asks of the authorizer: the APIs that tell or do the same.

No operation is named here: those of a right are in the row of its API (`table.py`). A page without a line here is not
served, and what its line does not name, its code cannot ask about (`broker.console.ask`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from metadata.acls import ResourceType

CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID = (
    ResourceType.CLUSTER,
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.TRANSACTIONAL_ID,
)

SIZES = "describe_log_dirs"
"""It tells of all folders and topics of a broker, and how large they are."""

EVERYTHING = "create_acls"
"""Who may make ACLs could give himself any right: he may see what is about all users, for which Kafka has no API."""


class Right(NamedTuple):
    """What an API asks for a resource of this type.

    `named` is the parameter with the resource's name; without one it is the cluster, or each resource that is shown.
    `what` is shown or done with this right.
    """

    api: str
    resource_type: ResourceType
    what: str = ""
    named: str | None = None


class Asked(NamedTuple):
    """Without all rights of `needed` a request is refused; without one of `shown` the page shows less."""

    needed: tuple[Right, ...] = ()
    shown: tuple[Right, ...] = ()


NOTHING = Asked()

NEAR_NAMES = Right(SIZES, CLUSTER, "topics with a name that is near, if there is none of this name")
WHY = Right(EVERYTHING, CLUSTER, "what was found about it (explain)")
READS = Asked((Right("fetch", TOPIC, named="topic"),), (NEAR_NAMES,))
MEMBERS = Right("consumer_group_describe", TOPIC, "members of another than a classic group: all its topics")
ADMINISTERS = Right(EVERYTHING, CLUSTER)

ASKED_BY_PAGES: Mapping[str, Asked] = MappingProxyType(
    {
        "": Asked((), (Right(SIZES, CLUSTER, "all of it: addresses, folders, rates, counts"),)),
        "topics": Asked(
            (),
            (
                Right("metadata", TOPIC, "each topic"),
                Right("list_offsets", TOPIC, "how many records it has"),
                Right("describe_configs", TOPIC, "how it is cleaned up"),
                Right(SIZES, CLUSTER, "sizes, and the bytes that were produced"),
            ),
        ),
        "topic": Asked(
            (Right("describe_topic_partitions", TOPIC, named="name"),),
            (
                Right("list_offsets", TOPIC, "offsets"),
                Right("describe_configs", TOPIC, "its configuration"),
                Right("describe_producers", TOPIC, "how many transactions are open"),
                Right(
                    SIZES, CLUSTER, "sizes and segments; topics with a name that is near, if there is none of this name"
                ),
                WHY,
            ),
        ),
        "messages": READS,
        "message": READS,
        "tail": READS,
        "groups": Asked(
            (),
            (
                Right("list_groups", CLUSTER, "all groups"),
                Right("list_groups", GROUP, "without that, each group"),
                Right("describe_groups", GROUP, "how many members it has"),
                Right("consumer_group_describe", TOPIC, "the same of another than a classic group: all its topics"),
                Right("offset_fetch", GROUP, "its lag"),
                Right("offset_fetch", TOPIC, "the part of the lag that is in this topic"),
            ),
        ),
        "group": Asked(
            (Right("describe_groups", GROUP, named="id"),),
            (
                Right("offset_fetch", GROUP, "offsets and lag"),
                Right("offset_fetch", TOPIC, "those in this topic, and who has its partitions"),
                MEMBERS,
                WHY,
            ),
        ),
        "transactions": Asked(
            (),
            (
                Right("list_transactions", TRANSACTIONAL_ID, "each transactional id"),
                Right("describe_transactions", TOPIC, "how many partitions of this topic it has"),
                Right("describe_producers", TOPIC, "who holds what of this topic"),
            ),
        ),
        "transaction": Asked(
            (Right("describe_transactions", TRANSACTIONAL_ID, named="id"),),
            (Right("describe_transactions", TOPIC, "its partitions of this topic"), WHY),
        ),
        "clients": Asked((ADMINISTERS,)),
        "cluster": Asked(
            (Right("describe_quorum", CLUSTER),),
            (Right("metadata", TOPIC, "the partitions of this topic that somebody should look at"),),
        ),
        "kit": Asked((ADMINISTERS,)),
        "journal": Asked((ADMINISTERS,)),
    }
)
"""By the page's path."""

ASKED_BY_ACTIONS: Mapping[str, Asked] = MappingProxyType(
    {
        "create-topic": Asked(
            (Right("create_topics", TOPIC, named="topic"),), (Right("metadata", TOPIC, "what it has if it exists"),)
        ),
        "delete-topic": Asked((Right("delete_topics", TOPIC, named="topic"),), (NEAR_NAMES,)),
        "truncate-topic": Asked((Right("delete_records", TOPIC, named="topic"),), (NEAR_NAMES,)),
        "reset-offsets": Asked(
            (
                Right("offset_commit", GROUP, named="group"),
                Right("describe_groups", GROUP, named="group"),
                Right("offset_commit", TOPIC, "each of its topics, or the one that is named", named="topic"),
            ),
            (
                Right("offset_fetch", TOPIC, "which topic it is that may not be reset"),
                MEMBERS,
            ),
        ),
        "delete-group": Asked(
            (Right("delete_groups", GROUP, named="group"), Right("describe_groups", GROUP, named="group")), (MEMBERS,)
        ),
        "abort-transaction": Asked(
            (
                Right("init_producer_id", TRANSACTIONAL_ID, named="transactional_id"),
                Right("describe_transactions", TRANSACTIONAL_ID, named="transactional_id"),
            )
        ),
        "remove-fault": Asked((ADMINISTERS,)),
        "advance-clock": Asked((ADMINISTERS,)),
    }
)
"""By the path to which the form is sent."""
