"""Meters of a request: the files that it visits, its Python calls.

A meter counts from the moment in which the bytes of a request arrive at the node to that in which its answer is looked
at. What the client does before and after is not the broker's, nor is what the test's own loop and doubles call.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import frame

ROOT = Path(__file__).parents[3]
DECIDE = (f"{ROOT}/broker/", f"{ROOT}/coordinator/")
"""The packages whose files count: what decides and passes on, not bytes (protocol), disks (storage) and timers."""
NOT_THE_BROKER = (f"{ROOT}/tests/", str(Path(asyncio.__file__).parent), "<frozen")
"""Whose calls do not count: a broker's loop is uvloop, which has none."""


class Meter:
    """Counts nothing. Others say what happens when a named request begins and ends."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._runs = False

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Count the requests that are sent meanwhile under this name, in the table a row."""
        self.open(name)
        self._name = name
        try:
            yield
        finally:
            self.answered()
            self._name = None

    def sent(self) -> None:
        """A request arrives."""
        if self._name is not None and not self._runs:
            self._runs = True
            self.begin(self._name)

    def answered(self) -> None:
        """Its answer is looked at."""
        if self._name is not None and self._runs:
            self._runs = False
            self.end(self._name)

    def open(self, name: str) -> None: ...
    def begin(self, name: str) -> None: ...
    def end(self, name: str) -> None: ...


@dataclass
class Walk:
    """Files in the order in which they were first visited, and the number of Python calls by function."""

    files: list[str] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)


class Walks(Meter):
    """Notes what is called. Send a request of the same kind before: the first one imports its handler."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, Walk] = {}

    def open(self, name: str) -> None:
        self.by_name[name] = Walk()

    def begin(self, name: str) -> None:
        walk = self.by_name[name]

        def profile(called: FrameType, event: str, _: Any) -> None:
            path = called.f_code.co_filename
            if event != "call" or path.startswith(NOT_THE_BROKER):
                return
            short = path.removeprefix(f"{ROOT}/")
            walk.calls[f"{short}:{called.f_code.co_qualname}"] += 1
            if path.startswith(DECIDE) and short not in walk.files:
                walk.files.append(short)

        sys.setprofile(profile)

    def end(self, _name: str) -> None:
        sys.setprofile(None)


class Boundaries(Meter):
    """Calls getppid(2) when a request begins and when it ends, as nothing else does: valgrind is told to look there."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def begin(self, name: str) -> None:
        self.names.append(name)
        os.getppid()

    def end(self, _name: str) -> None:
        os.getppid()


class MeteredClient(Client):
    """A client that tells the meter of its rig when a request arrives and when its answer is looked at."""

    def send(self, api: str, version: int, **fields: Any) -> int:
        self.correlation += 1
        bytes_of_it = frame(api, version, self.correlation, **fields)
        assert isinstance(self.rig, MeteredRig)
        self.rig.meter.sent()
        self.transport.feed(bytes_of_it)
        return self.correlation

    def replies(self) -> list[bytes]:
        assert isinstance(self.rig, MeteredRig)
        self.rig.meter.answered()
        return super().replies()


class MeteredRig(Rig):
    """A node whose clients tell a meter, which may be another for each round."""

    def __init__(self, config: Mapping[str, str] | None = None) -> None:
        super().__init__(config=config)
        self.meter = Meter()

    def connect(self, host: str = "10.0.0.7", listener: str = "PLAINTEXT") -> Client:
        plain = super().connect(host, listener)
        return MeteredClient(self, plain.transport, plain.connection)
