"""What the two ways to users share."""

from __future__ import annotations

Users = dict[str, dict[int, int]]
"""By user: the iterations, by the number of the mechanism."""


class UserToolError(Exception):
    """The command cannot be done; the message says why, and has no password."""
