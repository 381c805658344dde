"""What waits of the kit have in common."""

from __future__ import annotations


class WaitTimeoutError(TimeoutError, AssertionError):
    """A wait in vain. The text says what was waited for, and how things were at the end."""
