"""Why Spark failed, in a line: its errors come with the stack traces of two languages."""

from __future__ import annotations

import re

EXCEPTION = re.compile(r"^(?:.*: )?((?:[\w$]+\.)*[\w$]*(?:Error|Exception): .+)$", re.MULTILINE)
"""Matches the last exception that a line names: one of Spark's may name several, from the outer to the inner."""

CONDITION = re.compile(r"(\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] .+?)\s*(?:SQLSTATE.*)?$", re.MULTILINE)
"""What Spark says in its own words, as in "[PATH_NOT_FOUND] Path does not exist"."""

SAYS_NOTHING = re.compile(
    r"An error occurred while calling|Traceback \(most recent|Job aborted|An exception was|\[STREAM_FAILED\]"
)


def reason(error: BaseException) -> str:
    """The innermost message of Spark's own, and the exception below it; else the first line that is not blank."""
    text = str(error)
    words = [found for found in CONDITION.findall(text) if not SAYS_NOTHING.search(found)]
    causes = [found for found in EXCEPTION.findall(text) if not SAYS_NOTHING.search(found)]
    parts = [*words[-1:], *(cause for cause in causes[-1:] if not any(word in cause for word in words))]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ": ".join(parts) or next(iter(lines), type(error).__name__)
