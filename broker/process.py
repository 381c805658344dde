"""What a broker does to its own process: descriptors, reuse of memory, short garbage collections, an early end."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import os
import resource
import sys
from collections.abc import Awaitable
from typing import Any

from timing.clock import Clock

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
"""Parameters of glibc's mallopt(3)."""

STDIN, STDOUT, STDERR = 0, 1, 2
REUSED_BUFFER_BYTES = 4 * 1024 * 1024
KEPT_FREE_BYTES = 16 * 1024 * 1024
KEPT_DESCRIPTORS = 32
"""So many, or an eighth of a low limit, no client of a listener gets: they are for files and for health checks."""


def allow_many_descriptors() -> tuple[int, int]:
    """Raise the soft limit to the hard one, for many connections and segments. Returns the old and the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard


def open_standard_descriptors() -> None:
    """Open /dev/null for those of 0, 1 and 2 that the process was started without.

    Otherwise a segment or a socket would get such a number: log lines would go there, and libuv ends the process.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or os.fdopen(STDOUT, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(STDERR, "w", closefd=False)


def is_open(descriptor: int) -> bool:
    """Whether this process has the descriptor."""
    try:
        os.fstat(descriptor)
    except (OSError, OverflowError):
        return False
    return True


def require_spare_descriptor() -> None:
    """Raises OSError if the process can open nothing, or no more than the descriptors that are kept."""
    opened = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.close(opened)
    if is_kept(opened):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def is_kept(descriptor: int) -> bool:
    """Whether a descriptor that was just opened is of those that are kept: it is always the lowest that is free."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit != resource.RLIM_INFINITY and descriptor >= limit - min(KEPT_DESCRIPTORS, limit // 8)


def share_the_interpreter() -> None:
    """Let the loop wait for a busy worker thread for 1 ms at most each time, not for Python's 5 ms."""
    sys.setswitchinterval(0.001)


def reuse_freed_memory() -> None:
    """Make the C library keep freed buffers of the size of requests and record data for the next ones.

    By default it returns them, and the kernel then has to clear and map every page again: that was half of the work of
    a Fetch and a quarter of that of a Produce. Does nothing where there is no glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, REUSED_BUFFER_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_FREE_BYTES)


async def unless_stopped(work: Awaitable[Any], stop: asyncio.Event, clock: Clock, patience_ms: float) -> bool:
    """Do the work; return False if it has not ended `patience_ms` after `stop` was set. Raises what the work raises."""

    async def give_up() -> None:
        await stop.wait()
        await clock.sleep(patience_ms)

    doing, giving_up = asyncio.ensure_future(work), asyncio.ensure_future(give_up())
    await asyncio.wait((doing, giving_up), return_when=asyncio.FIRST_COMPLETED)
    giving_up.cancel()
    if doing.done():
        await doing
    return doing.done()


async def first_of(*events: asyncio.Event) -> None:
    """Return when one of them is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def exempt_loaded_modules_from_collection() -> None:
    """Keep full garbage collections, several milliseconds each, from walking everything loaded at startup."""
    gc.freeze()
