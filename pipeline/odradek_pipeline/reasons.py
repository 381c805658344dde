"""Why Spark failed, in one line: its errors come with the stack traces of two languages."""

from __future__ import annotations

import re

EXCEPTION = re.compile(r"^(?:.*: )?((?:[\w$]+\.)*[\w$]*(?:Error|Exception): .+)$", re.MULTILINE)
"""Matches the last exception named in a line: Spark's lines may name several, from the outermost to the innermost."""

CONDITION = re.compile(r"(\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] .+?)\s*(?:SQLSTATE.*)?$", re.MULTILINE)
"""A message in Spark's own words, such as "[PATH_NOT_FOUND] Path does not exist"."""

SAYS_NOTHING = re.compile(
    r"An error occurred while calling|Traceback \(most recent|Job aborted|An exception was|\[STREAM_FAILED\]|"
    r"OriginalTryStackTraceException"
)


def reason(error: BaseException) -> str:
    """The innermost of Spark's own messages, and the exception below it; else the first line that is not blank."""
    text = str(error)
    words = [found for found in CONDITION.findall(text) if not SAYS_NOTHING.search(found)]
    causes = [found for found in EXCEPTION.findall(text) if not SAYS_NOTHING.search(found)]
    parts = [*words[-1:], *(cause for cause in causes[-1:] if not any(word in cause for word in words))]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ": ".join(parts) or next(iter(lines), type(error).__name__)
