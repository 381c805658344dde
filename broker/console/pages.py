"""The table of pages: a line for each, by its path."""

from __future__ import annotations

from collections.abc import Mapping

from broker.console.ask import Shows
from broker.console.clients import clients
from broker.console.cluster import cluster
from broker.console.groups import group, groups
from broker.console.journal import journal
from broker.console.kit import kit
from broker.console.messages import message, messages
from broker.console.overview import overview
from broker.console.topic import topic
from broker.console.topics import topics
from broker.console.transactions import transaction, transactions
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType

SEES_CLUSTER = (AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
ADMINISTERS = (AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
"""Needed where other users' requests are shown."""

PAGES: Mapping[str, Shows] = {
    "": Shows(overview),
    "topics": Shows(topics),
    "topic": Shows(topic),
    "messages": Shows(messages),
    "message": Shows(message),
    "groups": Shows(groups),
    "group": Shows(group),
    "transactions": Shows(transactions),
    "transaction": Shows(transaction),
    "clients": Shows(clients, SEES_CLUSTER),
    "cluster": Shows(cluster, SEES_CLUSTER),
    "kit": Shows(kit, ADMINISTERS),
    "journal": Shows(journal, ADMINISTERS),
}

NAVIGATION = (
    ("./", "Overview", ("",)),
    ("topics", "Topics", ("topics", "topic", "messages", "message")),
    ("groups", "Groups", ("groups", "group")),
    ("transactions", "Transactions", ("transactions", "transaction")),
    ("clients", "Clients", ("clients",)),
    ("cluster", "Cluster", ("cluster",)),
    ("kit", "Test kit", ("kit",)),
    ("journal", "Journal", ("journal",)),
)
"""The links of every page: address, text, and the paths at which the link is marked."""
