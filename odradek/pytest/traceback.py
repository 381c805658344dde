"""Tracebacks of what the kit raises end at the user's line."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Iterator
from types import TracebackType

import _pytest

OURS = os.path.dirname(os.path.dirname(__file__))
BETWEEN = tuple(os.path.dirname(module.__file__ or "") for module in (asyncio, concurrent.futures))
"""Folders of what runs the kit's waits in a thread."""

PYTEST = os.path.dirname(_pytest.__file__)
"""The folder of what calls fixtures."""


def end_at_users_line(error: BaseException) -> bool:
    """Cut the last frames off if they are the kit's. What the user's own functions raise stays as it is.

    False if no frame would be left that is the user's, as when a fixture of the kit fails.
    pytest follows the frames themselves, so this cuts them rather than pytest's list of them. A broken kit is still
    seen with `--full-trace`, for which this is not called.
    """
    frames = list(_frames(error.__traceback__))
    paths = [os.path.abspath(frame.tb_frame.f_code.co_filename) for frame in frames]
    if not paths or not _is_in(paths[-1], OURS):
        return True
    while paths and _is_in(paths[-1], OURS, *BETWEEN):
        paths.pop()
    if not paths or _is_in(paths[-1], PYTEST):
        return False
    frames[len(paths) - 1].tb_next = None
    return True


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_in(path: str, *folders: str) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)
