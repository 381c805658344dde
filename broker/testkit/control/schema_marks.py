"""What a registry has, for marks; and a reset, which removes what came later for good, and sets levels and modes back.

Mostly a test makes the registry's topic, which then goes with the other topics. What is done here is for a registry
that was there before: subjects and versions by their names, `["orders-value", 1]`, levels and modes as their values.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from broker.node import Node
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.schemas import ask, forget
from metadata.topics import TopicImage

SETTINGS = {"config": ("compatibilityLevel", "compatibility"), "mode": ("mode", "mode")}
"""Paths of settings, with what an answer calls the value, and a request."""

Version = tuple[str, int]


async def marked_schemas(node: Node) -> dict[str, list[str]]:
    """The parts of a mark."""
    if _topic(node) is None:
        return {"schemas": [], "schema_settings": []}
    versions = await _versions(node)
    settings = await _settings(node, [None, *sorted({subject for subject, _ in versions})])
    return {"schemas": list(map(json.dumps, versions)), "schema_settings": list(map(json.dumps, settings))}


async def remove_schemas(node: Node, topics: Collection[str], kept: Collection[str], settings: Collection[str]) -> None:
    """Remove what is not in the mark; `topics` are the ids of those that stay. What refers to others goes first."""
    forget(node)
    topic = _topic(node)
    if topic is None or str(topic.id) not in topics:
        return
    versions = [each for each in await _versions(node) if json.dumps(each) not in kept]
    before = {(path, subject): value for path, subject, value in map(json.loads, settings)}
    subjects = sorted({subject for subject, _ in await _versions(node)})
    for path, subject, value in await _settings(node, [None, *subjects]):
        former = before.get((path, subject))
        if former != value:
            await _set(node, path, subject, former)
    while versions:
        left = [each for each in reversed(versions) if not await _removed(node, *each)]
        if len(left) == len(versions):
            raise ControlError(f"schemas cannot be removed: {left}", status=409)
        versions = left[::-1]


def _topic(node: Node) -> TopicImage | None:
    """The registry's topic."""
    name = node.local.config.string("schema.registry.kafkastore.topic")
    return None if node.registry is None else node.cluster.cache.topic(name)


async def _versions(node: Node) -> list[list[Any]]:
    found = []
    for subject in await ask(node, "GET", "/subjects", subjectPrefix=":*:", deleted="true"):
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found += [[subject, version] for version in await ask(node, "GET", path, missing=[], deleted="true")]
    return found


async def _settings(node: Node, subjects: Collection[str | None]) -> list[tuple[str, str | None, str]]:
    """Path, subject (None: everything) and value of each level and mode that is set."""
    found = []
    for path, (answered, _) in SETTINGS.items():
        for subject in subjects:
            value = await ask(node, "GET", _path(path, subject), missing={})
            if value.get(answered) is not None:
                found.append((path, subject, value[answered]))
    return found


async def _set(node: Node, path: str, subject: str | None, value: str | None) -> None:
    if value is None:
        await ask(node, "DELETE", _path(path, subject), missing=None)
    else:
        await ask(node, "PUT", _path(path, subject), {SETTINGS[path][1]: value}, force="true")


def _path(path: str, subject: str | None) -> str:
    return f"/{path}" if subject is None else f"/{path}/{quote(subject, safe='')}"


async def _removed(node: Node, subject: str, version: int) -> bool:
    """Whether the version is gone now; False while another one refers to it."""
    path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
    try:
        await ask(node, "DELETE", path, missing=None)
        await ask(node, "DELETE", path, missing=None, permanent="true")
    except ControlError as error:
        if error.status == 422:
            return False
        raise
    return True
