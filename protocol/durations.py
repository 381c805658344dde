"""Durations as kio's entities carry them: `timedelta`, milliseconds on the wire."""

from __future__ import annotations

from datetime import timedelta

ZERO = timedelta(0)
MILLISECOND = timedelta(milliseconds=1)
