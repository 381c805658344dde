"""A topic's lease: on S3 nothing else keeps a second driver from writing the same table and checkpoint.

How it works: the lease is an object beside the topic's checkpoint, written by conditional writes alone. Its holder
writes it anew every `RENEW_SECONDS`. Who finds it held waits and looks: if it changes, its holder lives, and the topic
is refused; if it stays the same for `LEASE_SECONDS`, by the clock of who looks, the holder is gone, and it is taken
over. A holder that could not renew its lease for `GIVE_UP_SECONDS` stops writing before anybody may take it.

What it cannot exclude: a driver that is suspended within a write, and goes on after `LEASE_SECONDS`.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.s3 import Written

logger = structlog.get_logger(__name__)

LEASE_SECONDS = 60.0
RENEW_SECONDS = 15.0
GIVE_UP_SECONDS = 40.0


class ConditionalObjects(Protocol):
    """`s3.Objects`."""

    def read(self, path: str) -> Written | None: ...

    def write(self, path: str, text: str, instead_of: str | None) -> str | None: ...


class Lease:
    """The lease at a path. `now` is a monotonic clock in seconds; one thread at a time."""

    def __init__(
        self, objects: ConditionalObjects, path: str, owner: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._objects = objects
        self._path = path
        self._owner = owner
        self._now = now
        self._tag: str | None = None
        self._renewed = 0.0
        self._seen: Written | None = None
        self._seen_since = 0.0
        self._number = 0

    def acquire(self) -> bool:
        """Whether it is ours now; False: ask again in a while. Raises LakeError if its holder lives."""
        if self.is_held:
            return True
        begun = self._now()
        found = self._objects.read(self._path)
        is_ours = found is not None and found.tag == self._tag  # not renewed in time, and taken by nobody yet
        self._tag = None
        if found is None or is_ours or not _is_held(found):
            self._take(begun, None if found is None else found.tag)
        elif self._seen is None:
            self._seen, self._seen_since = found, begun
        elif found.tag != self._seen.tag:
            raise LakeError(f"another driver writes this topic, and has just renewed its lease: {self._path}")
        elif begun - self._seen_since >= LEASE_SECONDS:
            self._take(begun, found.tag)
        return self._tag is not None

    def renew(self) -> bool:
        """Whether it is still ours. Raises what the objects raise; then it is, for a while."""
        if self._tag is None:
            return False
        self._take(self._now(), self._tag)
        return self._tag is not None

    @property
    def is_held(self) -> bool:
        """Whether nobody else can have it yet."""
        return self._tag is not None and self._now() - self._renewed < GIVE_UP_SECONDS

    def release(self) -> None:
        """Let others have it at once."""
        if self._tag is not None:
            self._objects.write(self._path, json.dumps({"owner": None}), self._tag)
            self._tag = None

    def _take(self, begun: float, instead_of: str | None) -> None:
        """Write it; `is_held`, which another thread asks for, changes only once the outcome is known."""
        self._number += 1
        text = json.dumps({"owner": self._owner, "renewed": self._number})
        tag = self._objects.write(self._path, text, instead_of)
        if tag is None:  # perhaps it was written, now or by the attempt before, and the answer got lost
            found = self._objects.read(self._path)
            if found is not None and found.text == text:
                tag = found.tag
            elif found is not None and _owner_of(found) == self._owner:
                if found.tag != instead_of:
                    self._take(begun, found.tag)
                return
        self._tag = tag
        if tag is not None:
            self._renewed, self._seen = begun, None


def _owner_of(found: Written) -> object:
    try:
        return json.loads(found.text)["owner"]
    except (ValueError, KeyError, TypeError):
        return ""  # whoever wrote it, it is not ours


def _is_held(found: Written) -> bool:
    return _owner_of(found) is not None


@dataclass(slots=True)
class _Kept:
    lease: Lease
    lost: bool = False
    waits: bool = False


class Leases:
    """The leases of a job, by topic, kept by a thread."""

    def __init__(self, objects: ConditionalObjects, place: Callable[[str], str]) -> None:
        self._objects = objects
        self._place = place
        self._owner = uuid.uuid4().hex
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, topic: str) -> bool:
        """As `Lease.acquire`."""
        with self._lock:
            kept = self._kept.setdefault(topic, _Kept(Lease(self._objects, self._place(topic), self._owner)))
            kept.lost = False
            got = kept.lease.acquire()
            if not got and not kept.waits:
                kept.waits = True
                logger.info("waiting for the lease of another driver to end", topic=topic, seconds=LEASE_SECONDS)
        if got and self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="leases", daemon=True)
            self._thread.start()
        return got

    def lost(self, topic: str) -> str | None:
        """Why nothing may be written of a topic any more; None if its lease is ours."""
        kept = self._kept[topic]
        if not kept.lost and kept.lease.is_held:
            return None
        return f"topic {topic}: its lease could not be renewed in time, so another driver may write it now"

    def end(self) -> None:
        """Give all of them back."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        for topic, kept in self._kept.items():
            self._attempt(topic, kept.lease.release)

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            for topic, kept in list(self._kept.items()):
                with self._lock:
                    if kept.lease.is_held and self._attempt(topic, kept.lease.renew) is False:
                        kept.lost = True

    def _attempt(self, topic: str, work: Callable[[], bool | None]) -> bool | None:
        from py4j.protocol import Py4JError

        try:
            return work()
        except (Py4JError, OSError) as error:
            logger.warning("lease not written", topic=topic, error=str(error)[:200])
            return None
