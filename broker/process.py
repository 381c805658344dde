"""The process that a node runs in: its release, descriptors, memory, the process that began it, and systemd.

A unit of `Type=notify` sets NOTIFY_SOCKET; one with `WatchdogSec` sets WATCHDOG_USEC, and WATCHDOG_PID to the process
that it means. Signs of life are sent by a timer of the loop, so a loop that hangs sends none, and systemd starts the
broker anew. A start or a stop that takes long asks for more time by such a timer too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import os
import resource
import shutil
import socket
import sys
from collections.abc import Awaitable, Mapping
from typing import Any

import structlog

from timing.clock import Clock, Timer

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
"""Parameters of glibc's mallopt(3)."""

STDIN, STDOUT, STDERR = 0, 1, 2
REUSED_BUFFER_BYTES = 4 * 1024 * 1024
KEPT_FREE_BYTES = 16 * 1024 * 1024
KEPT_DESCRIPTORS = 32
"""So many, or an eighth of a low limit, no client of a listener gets: they are for files and for health checks."""

logger = structlog.get_logger(__name__)
MS = 1000
"""Microseconds in one."""
EXTEND_EVERY_MS = 10_000
"""How often a start or a stop asks for more time; a unit that does not say otherwise has 90 seconds."""
EXTEND_BY_MS = 60_000
ENVIRONMENT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd sets for the process that it starts, and for no process that this one starts."""
KAFKA_VERSION = "4.4"
INFO = "odradek-", ".dist-info"
"""How the name of the folder begins and ends in which an installer describes the package, around its version."""


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


FULL_AFTER = 3
"""Collections of the middle generation before a full one, of some 31,000 objects; Python's ten take 10 ms longer."""
EXEMPTED_AT_MOST = 1_000_000


class Survivors:
    """Leaves what survives a full garbage collection out of the next ones: they walk what was made since, some 5 ms.

    With 10,000 topics a walk of everything takes 0.3 s, in which nobody is answered, and finds next to nothing: what
    ends in a node is freed by reference counts (`tests/unit/broker/test_no_circles.py`). Circles of exempt objects
    would stay, so everything is walked again once there are a million exempt objects more than after the last time.
    """

    def __init__(self) -> None:
        self._room = self._most = EXEMPTED_AT_MOST
        """How many more objects may surely become exempt; how many may be."""
        self._walks_all = False

    def exempt(self) -> None:
        """Begin with all that is loaded now. Python 3.14 collects in small steps, and needs no more than this."""
        gc.freeze()
        self._allow(gc.get_freeze_count())
        gc.set_threshold(*gc.get_threshold()[:2], FULL_AFTER)
        gc.callbacks.append(self.collection)

    def _allow(self, exempt: int) -> None:
        self._room = EXEMPTED_AT_MOST
        self._most = exempt + self._room

    def collection(self, phase: str, info: dict[str, int]) -> None:
        """Note that the interpreter begins a collection (`start`), or has ended it (`stop`)."""
        if phase != "stop" or info["generation"] != 2:
            return
        survivors = len(gc.get_objects(2))
        if self._walks_all:
            self._allow(survivors)
        else:
            self._room -= survivors
            if self._room < 0:  # unless most of what was exempted has been freed since
                self._room = self._most - gc.get_freeze_count() - survivors
        self._walks_all = self._room < 0
        if self._walks_all:
            gc.unfreeze()
        else:
            gc.freeze()


class Parent:
    """Knows when the parent has ended: standard input, a pipe that it holds, ends, or its process does.

    The pipe alone is not enough: a forked child of the parent holds it too, and may live longer. A file or /dev/null in
    its place says nothing. `has_ended` is set then.
    """

    def __init__(self) -> None:
        self.has_ended = False

    def watch(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        """Set `stop` when the parent has ended."""

        def ended() -> None:
            self.has_ended = True
            stop.set()

        def has_input() -> None:
            if not os.read(STDIN, 4096):
                loop.remove_reader(STDIN)
                ended()

        with contextlib.suppress(PermissionError):  # of a file
            loop.add_reader(STDIN, has_input)
        if hasattr(os, "pidfd_open"):
            try:
                process = os.pidfd_open(os.getppid())
            except OSError:
                return  # an old kernel, or a sandbox that does not allow it

            def process_ended() -> None:
                loop.remove_reader(process)
                os.close(process)
                ended()

            loop.add_reader(process, process_ended)

    def remove(self, folder: str) -> None:
        """Remove a folder of the parent's that nobody else removes: only if the parent has ended."""
        if self.has_ended:
            shutil.rmtree(folder, ignore_errors=True)


class Systemd:
    """Messages to the service manager; without NOTIFY_SOCKET nothing is sent."""

    def __init__(self, environ: Mapping[str, str], clock: Clock) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._clock = clock
        self._interval_ms = _watchdog_ms(environ) / 2  # as sd_watchdog_enabled(3) advises
        self._status = ""
        self._extending: Timer | None = None

    def starting(self) -> None:
        """Begin the start: until `ready` it asks for more time, and says what was noted last."""
        self._begin("starting")

    def note(self, status: str) -> None:
        """Note what a start or a stop that takes long is doing; for `systemctl status`. From any thread."""
        self._status = status

    def ready(self, status: str) -> None:
        """Tell that the broker serves; from now on there are signs of life. `status` is for `systemctl status`."""
        self._end()
        self._send(f"READY=1\nSTATUS={status}")
        if self._interval_ms:
            self._live()

    def say(self, status: str) -> None:
        """Tell that the broker still serves, but not as before."""
        self._send(f"STATUS={status}")

    def stopping(self) -> None:
        """Tell that the broker stops; signs of life go on until the process ends, as a stop may take long."""
        self._end()
        self._send("STOPPING=1\nSTATUS=stopping")
        self._begin("stopping")

    def _begin(self, status: str) -> None:
        self._status = status
        self._extending = self._clock.call_later(EXTEND_EVERY_MS, self._extend)

    def _extend(self) -> None:
        self._send(f"EXTEND_TIMEOUT_USEC={EXTEND_BY_MS * MS}\nSTATUS={self._status}")
        self._extending = self._clock.call_later(EXTEND_EVERY_MS, self._extend)

    def _end(self) -> None:
        if self._extending is not None:
            self._extending.cancel()

    def _live(self) -> None:
        self._send("WATCHDOG=1")
        self._clock.call_later(self._interval_ms, self._live)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            logger.warning("systemd not told", message=message.partition("\n")[0], error=str(error))


def _watchdog_ms(environ: Mapping[str, str]) -> float:
    """How long systemd waits for a sign of life; 0 without a watchdog, or if it means another process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0
    try:
        return int(environ.get("WATCHDOG_USEC", "0")) / MS
    except ValueError:
        return 0


def own_version() -> str:
    """That of the installed package; importlib.metadata would parse a mail for it, by a library of its own."""
    for folder in sys.path:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder or os.curdir):
                if name.startswith(INFO[0]) and name.endswith(INFO[1]):
                    return name.removeprefix(INFO[0]).removesuffix(INFO[1])
    return "0"  # run from the source tree alone
