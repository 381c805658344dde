"""How far a long command is, on standard error, where a person looks at it."""

from __future__ import annotations

import sys
import time

EVERY_S = 0.5


class Progress:
    """Counts records and bytes; prints them twice a second if standard error is a terminal."""

    def __init__(self, verb: str) -> None:
        self.records = 0
        self.bytes = 0
        self._verb = verb
        self._began = self._printed = time.monotonic()
        self._terminal = sys.__stderr__ if sys.stderr.isatty() else None

    def add(self, size: int) -> None:
        """Count a record."""
        self.records += 1
        self.bytes += size
        if self._terminal is not None and time.monotonic() - self._printed >= EVERY_S:
            self._printed = time.monotonic()
            self._terminal.write(f"\r{self}\x1b[K")
            self._terminal.flush()

    def end(self) -> None:
        """Print the last line."""
        if self._terminal is not None:
            self._terminal.write(f"\r{self}\x1b[K\n")

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return max(1e-9, time.monotonic() - self._began)

    def __str__(self) -> str:
        rate = self.records / self.seconds
        return f"{self._verb} {self.records} records, {self.bytes / 1e6:.1f} MB, {rate:.0f} records/s"
