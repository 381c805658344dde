"""JSON that somebody else has written."""

from __future__ import annotations

import json
from typing import Any

MOST_NESTED = 200
"""JSON with more levels is taken for none: what walks through values calls itself for each level."""


def json_of(content: bytes | str) -> Any:
    """The JSON value that somebody has written. Raises ValueError if it is none, or has too many levels."""
    too_deep = f"it is nested more than {MOST_NESTED} levels deep"
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError(too_deep) from None
    level = [value]
    for _ in range(MOST_NESTED):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
        if not level:
            return value
    raise ValueError(too_deep)
