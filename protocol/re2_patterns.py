"""Regular expressions that clients send, compiled by RE2: its time is bounded by the pattern's and the text's sizes."""

from __future__ import annotations

from typing import Any, Protocol


class Pattern(Protocol):
    """What is used of RE2's compiled expressions; the package has no types of its own."""

    @property
    def programsize(self) -> int:
        """The number of instructions, with which RE2's memory grows."""

    def fullmatch(self, text: str) -> object | None:
        """The match of the whole text; None without one."""


class InvalidPatternError(ValueError):
    """RE2 rejects the pattern; the text is RE2's."""


def quiet_options() -> Any:
    """Options with which RE2 reports errors to its caller alone, and prints none."""
    import re2  # most brokers are never asked

    options = re2.Options()
    options.log_errors = False
    return options


def compile_pattern(pattern: str) -> Pattern:
    """The compiled pattern. Raises InvalidPatternError."""
    import re2

    try:
        compiled: Pattern = re2.compile(pattern, quiet_options())
    except re2.error as error:
        raise InvalidPatternError(error.args[0].decode(errors="replace")) from error
    return compiled
