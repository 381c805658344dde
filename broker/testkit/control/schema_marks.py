"""What a registry has, for marks; and a reset, which removes what came later for good, and sets levels and modes back.

Mostly a test makes the registry's topic, which then goes with the other topics. What is done here is for a registry
that was there before: subjects and versions by their names, `["orders-value", 1]`, levels and modes as their values.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from broker.node import Node
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.schemas import ask, forget
from metadata.topics import TopicImage
from odradek.schemas.rest import setting_path, subject_path

LEVEL, MODE = "config", "mode"


async def marked_schemas(node: Node) -> dict[str, list[str]]:
    """The parts of a mark."""
    if _topic(node) is None:
        return {"schemas": [], "schema_settings": []}
    settings = await _settings(node)
    return {"schemas": list(map(json.dumps, await _versions(node))), "schema_settings": list(map(json.dumps, settings))}


async def remove_schemas(node: Node, topics: Collection[str], kept: Collection[str], settings: Collection[str]) -> None:
    """Remove what is not in the mark; `topics` are the ids of those that stay. What refers to others goes first."""
    forget(node)
    topic = _topic(node)
    if topic is None or str(topic.id) not in topics:
        return
    now = await _settings(node)
    for _, subject, _ in (setting for setting in now if setting[0] == MODE):  # it may forbid what follows
        await ask(node, "DELETE", setting_path(MODE, subject), missing=None)
    before = list(map(json.loads, settings))
    await _set_levels_back(node, _of_kind(LEVEL, before), _of_kind(LEVEL, now))
    versions = [each for each in await _versions(node) if json.dumps(each) not in kept]
    while versions:
        left = [each for each in reversed(versions) if not await _removed(node, *each)]
        if len(left) == len(versions):
            raise ControlError(f"schemas cannot be removed: {left}", status=409)
        versions = left[::-1]
    for subject, value in _of_kind(MODE, before).items():
        await ask(node, "PUT", setting_path(MODE, subject), value, force="true")


def _topic(node: Node) -> TopicImage | None:
    """The registry's topic."""
    name = node.local.config.string("schema.registry.kafkastore.topic")
    return None if node.registry is None else node.cluster.cache.topic(name)


async def _versions(node: Node) -> list[list[Any]]:
    found = []
    for subject in await ask(node, "GET", "/subjects", subjectPrefix=":*:", deleted="true"):
        path = subject_path(subject, "versions")
        found += [[subject, version] for version in await ask(node, "GET", path, missing=[], deleted="true")]
    return found


async def _settings(node: Node) -> list[list[Any]]:
    """Kind, subject (None: everything) and value of each level and mode that is set."""
    found: list[list[Any]] = await ask(node, "GET", "/odradek/settings")
    return found


def _of_kind(kind: str, settings: Collection[list[Any]]) -> dict[str | None, Mapping[str, Any]]:
    return {subject: value for each, subject, value in settings if each == kind}


async def _set_levels_back(
    node: Node, before: Mapping[str | None, Mapping[str, Any]], now: Mapping[str | None, Mapping[str, Any]]
) -> None:
    for subject in before.keys() | now.keys():
        former, path = before.get(subject), setting_path(LEVEL, subject)
        if former is None:
            await ask(node, "DELETE", path, missing=None)
        elif former != now.get(subject):
            value = {**dict.fromkeys(now.get(subject, ())), **former}
            await ask(node, "PUT", path, {**value, "compatibility": value.get("compatibilityLevel")})


async def _removed(node: Node, subject: str, version: int) -> bool:
    """Whether the version is gone now; False while another one refers to it."""
    path = subject_path(subject, "versions", version)
    try:
        await ask(node, "DELETE", path, missing=None)
        await ask(node, "DELETE", path, missing=None, permanent="true")
    except ControlError as error:
        if error.status == 422:
            return False
        raise
    return True
