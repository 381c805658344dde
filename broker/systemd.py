"""Tells systemd how the broker is (sd_notify): READY, STOPPING, and signs of life of the loop for the watchdog.

A unit of `Type=notify` sets NOTIFY_SOCKET; one with `WatchdogSec` sets WATCHDOG_USEC, and WATCHDOG_PID to the process
that it means. Signs of life are sent by a timer of the loop, so a loop that hangs sends none, and systemd starts the
broker anew. A start or a stop that takes long asks for more time by such a timer too.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import structlog

from timing.clock import Clock, Timer

logger = structlog.get_logger(__name__)

MS = 1000
"""Microseconds in one."""

EXTEND_EVERY_MS = 10_000
"""How often a start or a stop asks for more time; a unit that does not say otherwise has 90 seconds."""

EXTEND_BY_MS = 60_000

ENVIRONMENT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd sets for the process that it starts, and for no process that this one starts."""


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
        """The start begins; until `ready` it asks for more time, and says what was noted last."""
        self._begin("starting")

    def note(self, status: str) -> None:
        """What a start or a stop that takes long is doing; for `systemctl status`. From any thread."""
        self._status = status

    def ready(self, status: str) -> None:
        """The broker serves; from now on there are signs of life. `status` is for `systemctl status`."""
        self._end()
        self._send(f"READY=1\nSTATUS={status}")
        if self._interval_ms:
            self._live()

    def say(self, status: str) -> None:
        """The broker still serves, but not as before."""
        self._send(f"STATUS={status}")

    def stopping(self) -> None:
        """The broker stops; the signs of life go on until the process ends, as a stop may take long."""
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
