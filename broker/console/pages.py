"""The table of pages: a line for each, by its path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from broker.console.ask import Ask, Page
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

PAGES: Mapping[str, Callable[[Ask], Awaitable[Page]]] = {
    "": overview,
    "topics": topics,
    "topic": topic,
    "messages": messages,
    "message": message,
    "groups": groups,
    "group": group,
    "transactions": transactions,
    "transaction": transaction,
    "clients": clients,
    "cluster": cluster,
    "kit": kit,
    "journal": journal,
}
"""What they ask of the authorizer is in `broker.authorization.console_table`."""

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
