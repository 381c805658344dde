"""Snapshots of a broker's whole state."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from odradek.control import Control

MANIFEST = "snapshot.json"
"""The file that each snapshot has."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a broker at one moment: topics and records, groups and offsets, transactions, configurations.

    Attributes:
        path: its folder, where the broker runs.
        bytes: the size of its files; most of them share their blocks with the broker's.
        taken_ms: when it was taken, ms since 1970.
    """

    path: str
    bytes: int
    taken_ms: int
    _control: Callable[[], Control] = field(repr=False, compare=False)

    @classmethod
    def of(cls, answer: dict[str, Any], control: Callable[[], Control]) -> Snapshot:
        """What the control interface answered."""
        return cls(answer["path"], answer["bytes"], answer["taken_ms"], control)

    def __fspath__(self) -> str:
        return self.path

    def delete(self) -> None:
        """Remove its files; a broker that was restored from it keeps what it has."""
        self._control().delete("/snapshots", path=self.path)


def path_of(snapshot: Snapshot | str | os.PathLike[str]) -> str:
    """The absolute path of a snapshot. Raises TypeError."""
    if not isinstance(snapshot, Snapshot | str | os.PathLike):
        raise TypeError(f"snapshot = {snapshot!r}: expected what snapshot() returned, or a path")
    return os.path.abspath(os.fspath(snapshot))
