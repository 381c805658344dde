"""Waiting for something in a broker: what a wait raises whose time is up."""

from __future__ import annotations


class WaitTimeoutError(TimeoutError, AssertionError):
    """What was waited for did not come in time; the text says what that was, and what there was at the end."""
