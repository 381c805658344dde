"""Records what producers send and are answered, and what consumers are sent: frames as they come and go, in a file.

How it works. A recorder is put around the dispatcher, outside all faults, so it sees what clients see. It keeps only
Produce and Fetch, copied into a line of JSON each, and decodes nothing: that is for whoever reads the history
(`history_events`). The lines are in the kernel's hands before the answer goes out, so a kill of the broker loses none,
and the next start goes on with the file. It lies in the first folder of `log.dirs`, where the broker can certainly
write, and is not written through the node's file system: a simulated power failure must not take it.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from broker.network.dispatch import Buffers, Pending
from broker.node import Node
from protocol.primitives import UnreadBytes
from storage.state.exchange import HISTORIES

logger = structlog.get_logger(__name__)

PRODUCE, FETCH = b"\x00\x00", b"\x00\x01"
SHORTEST_WITH_RECORDS = 100
"""A shorter answer to a Fetch has no records: a batch alone has 61 bytes, and one record."""

SUFFIX = ".jsonl"


class Recorder:
    """Records from `begin` to `end`.

    Attributes:
        path: the file, which may have what an earlier process recorded.
        failed: why it could not be written; None if it could.
    """

    def __init__(self, node: Node, path: Path) -> None:
        self.path = path
        self._node = node
        self._file: int | None = None
        self._run = os.getpid()
        self._numbers = count(1)
        self._topics = node.cluster.cache.image.topics
        self.failed: str | None = None

    def begin(self, first: dict[str, Any] | None = None) -> None:
        """Record from now on; `first` is the first line of a new file. Raises OSError."""
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if first is not None:
            self.note(**first)
        dispatcher = self._node.dispatcher
        dispatcher.dispatch = partial(self._dispatch, dispatcher.dispatch)

    def end(self) -> None:
        """Record nothing more, and remove the file."""
        self._close()
        self.path.unlink(missing_ok=True)
        # Another recorder may have been put around this one: then it stays in between, and does nothing.
        dispatch: Any = self._node.dispatcher.dispatch
        if isinstance(dispatch, partial) and getattr(dispatch.func, "__self__", None) is self:
            self._node.dispatcher.dispatch = dispatch.args[0]

    def note(self, **line: Any) -> None:
        """Add a line. If it cannot be written, the history has a hole: then it is `failed`, and ends here."""
        if self._file is None:
            return
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            if os.write(self._file, text) == len(text):
                return
            self.failed = "there is no room on the device"
        except OSError as error:
            self.failed = error.strerror or str(error)
        logger.error("a history cannot be written", path=str(self.path), error=self.failed)
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def note_deleted(self) -> None:
        """Note which topics were deleted since this was asked last: one of the same name may be there by now."""
        topics = self._node.cluster.cache.image.topics
        if topics is not self._topics:
            for topic in self._topics:
                if topics.by_id(topic.id) is None:
                    self.note(kind="deleted", topic=topic.name)
            self._topics = topics

    def restored(self) -> None:
        """A snapshot was restored: the topics are other ones."""
        self._topics = self._node.cluster.cache.image.topics
        self.note(kind="restored", ends=_ends(self._node))

    def _dispatch(
        self, handle: Callable[[Any, memoryview], Buffers | Pending | None], connection: Any, frame: memoryview
    ) -> Buffers | Pending | None:
        api = bytes(frame[:2])
        if self._file is None or api not in (PRODUCE, FETCH):
            return handle(connection, frame)
        self.note_deleted()
        request = _text(bytes(frame))  # now, as an append writes offsets into it
        exchange = {
            "id": f"{self._run}.{next(self._numbers)}",
            "connection": f"{connection.client_host}:{connection.client_port}",
            "at": self._node.local.clock.machine.wall_ms(),
        }
        if api == PRODUCE:
            self.note(kind="request", request=request, **exchange)
            answered = partial(self._answered, exchange)
        else:
            answered = partial(self._fetched, exchange, request)
        result = handle(connection, frame)
        if isinstance(result, Pending):
            result.finish = partial(_finish, result.finish, answered)
        else:
            answered(result)
        return result

    def _answered(self, exchange: dict[str, Any], answer: Buffers | None) -> None:
        if answer is not None:
            self.note(kind="answer", id=exchange["id"], answer=_joined(answer))

    def _fetched(self, exchange: dict[str, Any], request: str, answer: Buffers | None) -> None:
        size = 0 if answer is None else sum(map(len, answer)) if isinstance(answer, list) else len(answer)
        if answer is not None and size >= SHORTEST_WITH_RECORDS:
            self.note(kind="fetch", request=request, answer=_joined(answer), **exchange)


def _finish(finish: Callable[[], Buffers | None], answered: Callable[[Buffers | None], None]) -> Buffers | None:
    answer = finish()
    answered(answer)
    return answer


def _joined(answer: Buffers) -> str | None:
    """The answer as text; None if a part of it is in a file, and not in memory."""
    if not isinstance(answer, list):
        return _text(answer)
    parts = []
    for part in answer:
        read = part.try_read(0, len(part)) if isinstance(part, UnreadBytes) else part
        if read is None:
            return None
        parts.append(bytes(read))
    return _text(b"".join(parts))


def _text(content: bytes | bytearray) -> str:
    return base64.b64encode(content).decode()


def _ends(node: Node) -> dict[str, dict[str, int]]:
    """The end of each partition, by topic and number."""
    ends: dict[str, dict[str, int]] = {}
    for partition in node.replicas:
        ends.setdefault(partition.topic, {})[str(partition.index)] = partition.log_end_offset
    return ends


class Histories:
    """The recorders of a node, by the name of their history."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._folder = Path(node.local.config.log_dirs[0]) / HISTORIES
        self.recorders: dict[str, Recorder] = {}

    def resume(self) -> None:
        """Go on with what an earlier process recorded, which was killed or stopped."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            self._begin(path.stem, None)
            logger.info("history goes on", history=path.stem)

    def begin(self) -> str:
        """Begin a history; return its name. Raises OSError."""
        self._folder.mkdir(exist_ok=True)
        name = self._node.base.new_id().hex
        self._begin(name, {"kind": "began", "ends": _ends(self._node)})
        return name

    def _begin(self, name: str, first: dict[str, Any] | None) -> None:
        recorder = Recorder(self._node, self._folder / f"{name}{SUFFIX}")
        recorder.begin(first)
        self.recorders[name] = recorder

    def end(self, name: str) -> None:
        self.recorders.pop(name).end()
        if not self.recorders:
            self._folder.rmdir()

    def end_all(self) -> None:
        for name in tuple(self.recorders):
            self.end(name)

    def restored(self) -> None:
        """A snapshot was restored."""
        for recorder in self.recorders.values():
            recorder.restored()


_of: WeakKeyDictionary[Node, Histories] = WeakKeyDictionary()


def histories_of(node: Node) -> Histories:
    """The histories of a node, always the same object."""
    found = _of.get(node)
    if found is None:
        found = _of[node] = Histories(node)
    return found
