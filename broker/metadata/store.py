"""The port to whatever keeps the things that a cluster agrees on: topics, configs, producer-id blocks.

The store maps string keys to bytes. Its revision rises by one with every commit; a key's version is the revision that
last wrote it (etcd's `mod_revision`), so that compare-and-swap works the same on the embedded store and on etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from protocol.errors import KafkaStorage

T = TypeVar("T")

MOST_ATTEMPTS = 1_000
"""The most retries: more conflicts mean a bug here, which must not occupy the loop for ever."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A value and the revision that wrote it."""

    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit did to the keys under a watched prefix; None is a deleted key."""

    revision: int
    keys: Mapping[str, Versioned | None]


class VersionConflictError(Exception):
    """A key was not at the version that a commit expected; nothing of the commit was done.

    When this is raised, `get` and the watches already show the state that the commit lost against.
    """

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(f"{key} is at version {actual}, expected {expected}")
        self.key = key


class MetadataStoreError(KafkaStorage):
    """The store can no longer make anything durable, or the outcome of a commit is unknown."""


class MetadataStore(Protocol):
    """The store as handlers, topics and configs use it; the module's docstring describes its model."""

    @property
    def revision(self) -> int:
        """The newest durable revision; 0 before the first commit."""

    async def get(self, key: str) -> Versioned | None:
        """The newest durable value; None if there is none."""

    async def list(self, prefix: str) -> Mapping[str, Versioned]:
        """Every key under `prefix`, in the order of the keys."""

    async def commit(
        self,
        expected: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
    ) -> int:
        """Write and delete together, or not at all, once every key of `expected` is at its version (0: absent).

        Returns the new revision once it is durable and every watch of this process has seen it. Raises
        VersionConflictError, or MetadataStoreError.
        """

    def watch(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call `callback` on the loop, in order of revisions, for each later commit under `prefix`.

        Returns the function that ends the watch.
        """

    async def close(self) -> None:
        """Wait for the commits under way, then refuse all others."""


async def retrying(attempt: Callable[[], Awaitable[T]]) -> T:
    """Read, decide and commit; repeat if another writer came between. Raises VersionConflictError after many tries."""
    for _ in range(MOST_ATTEMPTS - 1):
        try:
            return await attempt()
        except VersionConflictError:
            await asyncio.sleep(0)
    return await attempt()
