"""Faults of remote storage (docs/tiered-storage.md): a store that is slow, fails, has lost objects or damaged them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker.node import Node
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values

if TYPE_CHECKING:
    from protocol.remote_storage.segment import RemoteSegment
    from protocol.remote_storage.store import IndexKind, RemoteStore, SegmentData, StoredObject

ENDPOINTS = Endpoints()

FINE, SLOW, ERROR, LOST, CORRUPT = KINDS = ("fine", "slow", "error", "lost", "corrupt")
DEFAULT_S = 1.0


class FaultyStore:
    """`store`, with a fault from now on: all calls are slow or fail, or what is read is missing or damaged."""

    def __init__(self, store: RemoteStore, kind: str, seconds: float) -> None:
        self.store = store
        self._kind = kind
        self._seconds = seconds
        self._is_over = threading.Event()

    def end(self) -> None:
        """Let the calls that are slow go on."""
        self._is_over.set()

    def _call(self) -> None:
        from protocol.remote_storage.store import RemoteStoreError

        if self._kind == SLOW:
            self._is_over.wait(self._seconds)
        elif self._kind == ERROR:
            raise RemoteStoreError("a fault of the test: the store fails")

    def _read(self, content: bytes) -> bytes:
        from protocol.remote_storage.store import RemoteObjectMissingError

        if self._kind == LOST:
            raise RemoteObjectMissingError("a fault of the test: the object is lost")
        return b"\xff" * len(content) if self._kind == CORRUPT else content

    def check(self) -> None:
        self._call()
        self.store.check()

    def copy(self, segment: RemoteSegment, data: SegmentData) -> bytes | None:
        self._call()
        return self.store.copy(segment, data)

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        self._call()
        return self._read(self.store.read(segment, position, size))

    def index(self, segment: RemoteSegment, kind: IndexKind) -> bytes:
        self._call()
        return self.store.index(segment, kind)

    def delete(self, segment: RemoteSegment) -> None:
        self._call()
        self.store.delete(segment)

    def names(self, segment: RemoteSegment) -> list[str]:
        return self.store.names(segment)

    def objects(self) -> Iterator[StoredObject]:
        self._call()
        return self.store.objects()


@ENDPOINTS(
    "POST /remote_storage",
    "Let remote storage be slow, fail, have lost what is read or damaged it; or be fine again.",
    Parameter("kind", Kind.STRING, "How the store is from now on.", required=True, choices=KINDS),
    Parameter("seconds", Kind.NUMBER, f"How long a call takes if it is slow; default {DEFAULT_S:g}.", least=0),
)
def _remote_storage(node: Node, values: Values) -> dict[str, Any]:
    if node.tier is None:
        raise ControlError("this broker has no tiered storage (remote.log.storage.system.enable)", status=409)
    store, kind = node.tier.store, values["kind"]
    real = store.behind
    if isinstance(real, FaultyStore):
        real.end()
        real = real.store
    store.behind = real if kind == FINE else FaultyStore(real, kind, values.get("seconds", DEFAULT_S))
    node.tier.reader.forget()
    return {"kind": kind}
