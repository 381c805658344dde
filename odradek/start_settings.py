"""The settings that a `Broker` is started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from odradek.snapshot import MANIFEST, Snapshot, path_of

FOR_TESTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "odradek.http.port": "-1",
    "odradek.control": "127.0.0.1:0",
}
"""What a broker for tests has besides its profile."""

PROFILES = ("test", "dev", "kafka")
"""The profiles of a broker: docs/configuration.md has what they set."""


SECRET_SETTINGS = (".password", ".jaas.config", ".keystore.key", ".secret", ".secret.key", ".token", ".passphrase")
"""How names of settings end that go through a file: others can read a process's command line."""


def require_profile(profile: str) -> None:
    """Raises ValueError for an unknown one."""
    if profile not in PROFILES:
        raise ValueError(f"profile = {profile!r}: expected one of {', '.join(PROFILES)}")


def first_state(snapshot: Snapshot | str | os.PathLike[str] | None, data_dir: Path) -> dict[str, str]:
    """The setting for what the broker begins with. Raises ValueError."""
    if snapshot is None:
        return {}
    path = path_of(snapshot)
    if not os.path.exists(os.path.join(path, MANIFEST)):
        raise ValueError(f"snapshot = {path!r} is no snapshot: it has no {MANIFEST}")
    if (data_dir / "meta.properties").exists():
        raise ValueError(
            f"snapshot = {path!r}: data_dir = {str(data_dir)!r} has data already; restore(...) replaces it"
        )
    return {"odradek.snapshot": path}


def as_list(value: str) -> list[str]:
    """The folders that a broker takes `log.dirs` for."""
    return [part.strip() for part in value.split(",")]


def properties_text(settings: Mapping[str, str]) -> str:
    """The settings as a properties file has them, in ASCII."""
    return "".join(f"{key}={''.join(map(_escaped, value))}\n" for key, value in settings.items())


def _escaped(char: str) -> str:
    """A character of a value, as UTF-16 where it could mean something else or is beyond ASCII."""
    if char.isascii() and char.isprintable() and char not in "\\ ":
        return char
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
