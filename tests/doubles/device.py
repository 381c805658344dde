"""What a memory device has of files and folders: what they are now, and what a power failure leaves of them."""

from __future__ import annotations

import random
from enum import Enum, auto

_BLOCK = 64
"""Bytes of a page: what the kernel writes, drops, or tears as one."""


class Unsynced(Enum):
    """What becomes of bytes and names that were not synced when the machine fails."""

    LOST = auto()
    KEPT = auto()
    TORN = auto()
    ANY = auto()  # one of the others for each file


class Inode:
    """A file's bytes."""

    __slots__ = ("data", "dropped", "durable", "modified_ms")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.dropped: set[int] = set()  # blocks that no sync brings to the device
        self.modified_ms = 0

    def synced(self) -> bytes:
        """What is on the device once all that is dirty is written."""
        if not self.dropped:
            return bytes(self.data)
        return b"".join(
            _block(self.durable, at).ljust(len(now), b"\0")[: len(now)] if at in self.dropped else now
            for at, now in enumerate(_blocks(self.data))
        )

    def drop_dirty(self) -> None:
        """A sync failed."""
        self.dropped |= {at for at, now in enumerate(_blocks(self.data)) if now != _block(self.durable, at)}

    def note_dirty(self, start: int, end: int) -> None:
        if self.dropped:
            self.dropped -= set(range(start // _BLOCK, -(-end // _BLOCK)))

    def crash(self, unsynced: Unsynced, rng: random.Random) -> None:
        """Power failure: fall back to what `unsynced` says."""
        if unsynced is Unsynced.ANY:
            unsynced = rng.choice((Unsynced.LOST, Unsynced.KEPT, Unsynced.TORN))
        now, synced = self.synced(), self.durable
        self.dropped.clear()
        if unsynced is Unsynced.KEPT:
            self.data = bytearray(now)
        elif unsynced is Unsynced.LOST:
            self.data = bytearray(synced)
        elif unsynced is Unsynced.TORN and now != synced:
            size = rng.randint(min(len(now), len(synced)), max(len(now), len(synced)))
            torn = bytearray()
            for at in range(0, size, _BLOCK):
                block = (now if rng.random() < 0.7 else synced)[at : min(at + _BLOCK, size)]
                torn += block + bytes(min(_BLOCK, size - at) - len(block))
            self.data = torn
        self.durable = bytes(self.data)


class Folder:
    """A folder's names."""

    __slots__ = ("durable", "history", "names")

    def __init__(self) -> None:
        self.names: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}
        self.history: list[dict[str, Inode | Folder]] = []  # the names after each change since the last sync

    def changed(self) -> None:
        self.history.append(dict(self.names))

    def crash(self, unsynced: Unsynced, rng: random.Random) -> None:
        """Power failure: fall back to what `unsynced` says, with all that is in the folder."""
        match unsynced:
            case Unsynced.LOST:
                kept = 0
            case Unsynced.KEPT:
                kept = len(self.history)
            case _:
                kept = rng.randint(0, len(self.history))
        self.names = dict(self.history[kept - 1] if kept else self.durable)
        self.durable = dict(self.names)
        self.history = []
        for node in self.names.values():
            node.crash(unsynced, rng)


def _block(data: bytes | bytearray, at: int) -> bytes:
    return bytes(data[at * _BLOCK : (at + 1) * _BLOCK])


def _blocks(data: bytes | bytearray) -> list[bytes]:
    return [_block(data, at) for at in range(-(-len(data) // _BLOCK))]
