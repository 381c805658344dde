"""`@pytest.mark.odradek(topics={"orders": 3}, settings={...})`: what a test finds in its broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

NAME = "odradek"
LINE = (
    "odradek(topics, settings): topics that the test finds ({name: partitions}, or a list of names), and settings of "
    "the broker, which is then another than the session's"
)
ACCEPTED = ("topics", "settings")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the markers of a test ask for; the nearest one wins. `topics` has the parameters of `Controls.topic`."""

    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, item: pytest.Item) -> Wanted:
        """Raises UsageError for a wrong marker."""
        wanted = cls()
        for marker in reversed(list(item.iter_markers(NAME))):
            wanted.topics.update(topics_of(marker.kwargs.get("topics", {}), "topics"))
            wanted.settings.update(_settings(marker))
        return wanted


def topics_of(given: object, where: str) -> dict[str, dict[str, Any]]:
    """By name, the parameters of `Controls.topic`. Raises UsageError."""
    if isinstance(given, str):
        return {given: {}}
    if isinstance(given, Mapping):
        return {_name(name, where): _parameters(name, value, where) for name, value in given.items()}
    if isinstance(given, Iterable):
        return {_name(name, where): {} for name in given}
    raise _wrong(f"{where} = {given!r}")


def _name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise _wrong(f"{where}: {name!r}")
    return name


def _parameters(name: object, value: object, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"partitions": value}
    if isinstance(value, Mapping) and set(value) <= {"partitions", "configs"}:
        return dict(value)
    raise _wrong(f"{where}: {name!r}: {value!r}")


def _wrong(what: str) -> pytest.UsageError:
    expected = '{"name": partitions}, {"name": {"partitions": 3, "configs": {...}}}, or a list of names'
    return pytest.UsageError(f"{what}: expected {expected}")


def _settings(marker: pytest.Mark) -> dict[str, object]:
    if marker.args:
        raise pytest.UsageError(f"@pytest.mark.odradek: {marker.args[0]!r} has no name: expected topics= or settings=")
    for name in marker.kwargs:
        if name not in ACCEPTED:
            raise pytest.UsageError(f"@pytest.mark.odradek: there is no {name}=: expected topics= or settings=")
    settings = marker.kwargs.get("settings", {})
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise pytest.UsageError(f'@pytest.mark.odradek: settings = {settings!r}: expected {{"num.partitions": 3}}')
    return dict(settings)
