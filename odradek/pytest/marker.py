"""`@pytest.mark.odradek(topics={"orders": 3}, settings={...}, security=...)`: what a test finds in its broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from odradek.security import Security, acl_settings
from odradek.start_settings import require_profile

NAME = "odradek"
LINE = (
    "odradek(topics, settings, profile, security, users, acls): topics that the test finds ({name: partitions}, or a "
    "list of names); the others are those of odradek.Broker, and with one of them it is another than the session's"
)
OF_BROKER = ("profile", "security", "users", "acls")
"""What a marker says of the broker besides its settings, named as the parameters of `Broker` and `Cluster`."""

ACCEPTED = ("topics", "settings", *OF_BROKER)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the markers of a test ask for; the nearest one wins. `topics` has the parameters of `Controls.topic`.

    `options` are parameters of `Broker`.
    """

    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, item: pytest.Item) -> Wanted:
        """What this test wants. A wrong marker fails the test."""
        wanted = cls()
        try:
            for marker in reversed(list(item.iter_markers(NAME))):
                wanted._add(marker)
            wanted._check()
        except pytest.UsageError as error:
            pytest.fail(f"{item.nodeid}: @pytest.mark.odradek: {error}", pytrace=False)
        return wanted

    def _add(self, marker: pytest.Mark) -> None:
        """Raises UsageError."""
        expected = ", ".join(f"{name}=" for name in ACCEPTED)
        if marker.args:
            raise pytest.UsageError(f"{marker.args[0]!r} has no name: expected {expected}")
        for name in marker.kwargs:
            if name not in ACCEPTED:
                raise pytest.UsageError(f"there is no {name}=: expected {expected}")
        self.topics.update(topics_of(marker.kwargs.get("topics", {}), "topics"))
        self.settings.update(_settings(marker.kwargs.get("settings", {})))
        self.options.update({name: marker.kwargs[name] for name in OF_BROKER if name in marker.kwargs})

    def _check(self) -> None:
        """Raises UsageError."""
        try:
            if "profile" in self.options:
                require_profile(self.options["profile"])
            if self.options.get("acls") is not None:
                acl_settings(self.options["acls"])
            Security.chosen(self.options.get("security"), self.options.get("users"), self.settings, Path())
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(str(error)) from error

    @property
    def needs_own(self) -> bool:
        """Whether the session's broker will not do."""
        return bool(self.settings or self.options)


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


def _settings(given: object) -> dict[str, object]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise pytest.UsageError(f'settings = {given!r}: expected {{"num.partitions": 3}}')
    return dict(given)
