"""The table of pages: a line for each, by its path."""

from __future__ import annotations

from collections.abc import Mapping

from broker.console.ask import Shows
from broker.console.messages import message, messages
from broker.console.overview import overview
from broker.console.topic import topic
from broker.console.topics import topics

PAGES: Mapping[str, Shows] = {
    "": Shows(overview),
    "topics": Shows(topics),
    "topic": Shows(topic),
    "messages": Shows(messages),
    "message": Shows(message),
}

NAVIGATION = (
    ("./", "Overview", ("",)),
    ("topics", "Topics", ("topics", "topic", "messages", "message")),
)
"""The links of every page: address, text, and the paths at which the link is marked."""
