"""Topic names to table names, and errors of `lake` that a user can fix and that retrying cannot.

A topic's name may be one that no table can have: it may begin with `_` or `.`, which Spark takes for hidden files, and
contain `.` and `-`, which catalogs reject. No topic's name contains `@`, so names made with it collide with none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import click


class LakeError(click.ClickException):
    """The message says what is wrong and what to do about it."""


DEAD_LETTERS = "@dead-letters"
DELETED_KEYS = "@deleted-keys"
CHECKPOINTS = "@checkpoints"
LEASES = "@leases"


TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""What Kafka allows (org.apache.kafka.common.internals.Topic)."""


def folder(topic: str) -> str:
    """The name of a table that is a folder: the topic's own, after an `@` if it begins with `_` or `.`."""
    return f"@{topic}" if topic[0] in "._" else topic


def dead_letters_folder(topic: str) -> str:
    return folder(topic) + DEAD_LETTERS


def deleted_keys_folder(topic: str) -> str:
    return folder(topic) + DELETED_KEYS


def identifier(topic: str) -> str:
    """The table's name in the user's catalog: lower case letters, digits and `_`, beginning with a letter."""
    plain = re.sub(r"[^a-z0-9_]", "_", topic.lower())
    return plain if plain[0].isalpha() else f"t{plain}" if plain[0] == "_" else f"t_{plain}"


def dead_letters_identifier(topic: str) -> str:
    return identifier(topic) + "__dead_letters"


def deleted_keys_identifier(topic: str) -> str:
    return identifier(topic) + "__deleted_keys"


def check_distinct(topics: Iterable[str]) -> None:
    """Raises LakeError if two topics would share a table of a catalog."""
    owners: dict[str, str] = {}
    for topic in sorted(topics):
        for name in (identifier(topic), dead_letters_identifier(topic), deleted_keys_identifier(topic)):
            other = owners.setdefault(name, topic)
            if other != topic:
                raise LakeError(f"topics {other} and {topic} would share the table {name}: run one of them by itself")
