"""The walk of a request through a node: which files it visits, and how many Python calls it makes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = f"{Path(__file__).parents[3]}/"
DECIDE = ("broker/", "coordinator/")
"""The packages whose files count: what decides and passes on, not bytes (protocol), disks (storage) and timers."""
PRODUCT = (*DECIDE, "storage/", "protocol/", "timing/", "metadata/", "controller/")


@dataclass
class Walk:
    """Files in the order in which they were first visited; `calls` are those of all product code."""

    files: list[str] = field(default_factory=list)
    calls: int = 0


@contextmanager
def walk() -> Iterator[Walk]:
    """Note what is called meanwhile. Send a request of the same kind before: the first one imports its handler."""
    noted = Walk()
    seen: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename.removeprefix(ROOT)
        if event != "call" or not path.startswith(PRODUCT):
            return
        noted.calls += 1
        if path not in seen:
            seen.add(path)
            if path.startswith(DECIDE):
                noted.files.append(path)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield noted
    finally:
        sys.setprofile(before)
