"""Names in Spark's SQL."""

from __future__ import annotations


def quoted(identifier: str) -> str:
    """An identifier in backticks; backticks within it are doubled."""
    return "`" + identifier.replace("`", "`" * 2) + "`"
