"""A node as a fork of a process that has loaded everything: what makes the new process the node's own.

A fork has the memory of its parent, so the parent must be at rest: one thread, no event loop, nothing logged or opened.
The fork then takes what a new process would have been given: descriptors, process group, folder, umask and
environment. Python and OpenSSL give it random numbers of its own; the seed of `hash(str)` alone is its parent's.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping

from protocol import compiled

PR_SET_PDEATHSIG = 1
FIRST_FREE = 16
"""Descriptors are moved up to this number or above before they take their places below it."""

READY = 3
"""The descriptor for the ready line in a node that the test kit has forked; `odradek/warm.py` knows it too."""


def why_unsafe() -> str | None:
    """Say why this process cannot be forked; None if it can."""
    if sys.platform != "linux":
        return f"a fork is safe on Linux alone, and this is {sys.platform}"
    if not hasattr(os, "pidfd_open"):
        return "this Python has no os.pidfd_open"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"pidfd_open is refused here: {error.strerror}"
    threads = len(os.listdir("/proc/self/task"))
    return f"the process has {threads} threads" if threads > 1 else None


def end_with(parent: int) -> None:
    """Let this process be killed when its parent ends, or end it now if that was so already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def keep(*descriptors: int) -> None:
    """Let these become 0, 1, 2 and so on, and close all others."""
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for descriptor in descriptors]
    for number, descriptor in enumerate(moved):
        os.dup2(descriptor, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= len(moved):
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(int(name))
    compiled.begin_in_fork()


def take_environment(environment: Mapping[str, str]) -> None:
    """Let these be the environment variables, for Python and for the C library."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
