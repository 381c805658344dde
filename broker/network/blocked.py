"""Why a connection handles no further request: a bit for each reason."""

from __future__ import annotations

WRITING_PAUSED, THROTTLED, OTHERS_TURN, NOT_ADMITTED, SENDING, LOST = 1, 2, 4, 8, 16, 32
"""Reasons why a connection handles no further request: unsent replies, a quota (KIP-219), its turn is over, it waits
for one of `max.connections` (or in vain, as its address connects too often), a reply that is read while it is sent, or
a fault that loses its requests."""
