"""Regular expressions from clients, compiled by RE2: its time is bounded by the sizes of pattern and text."""

from __future__ import annotations

from typing import Any, Protocol


class Pattern(Protocol):
    """The part of RE2's compiled expressions that is used here; the package has no types of its own."""

    @property
    def programsize(self) -> int:
        """The number of instructions, to which RE2's memory is proportional."""

    def fullmatch(self, text: str) -> object | None:
        """The match of the whole text; None without one."""


class InvalidPatternError(ValueError):
    """RE2 rejects the pattern; the text is RE2's."""


def re2_module() -> Any:
    """RE2's Python package. Raises InvalidPatternError where it is not installed: it has no wheel for musl."""
    try:
        import re2  # most brokers never need it
    except ImportError:
        raise InvalidPatternError(
            "this broker has no google-re2, without which it takes no regular expressions: name the topics"
        ) from None
    return re2


def quiet_options() -> Any:
    """Options with which RE2 reports errors only to its caller and prints nothing."""
    options = re2_module().Options()
    options.log_errors = False
    return options


def compile_pattern(pattern: str) -> Pattern:
    """The compiled pattern. Raises InvalidPatternError."""
    re2 = re2_module()
    try:
        compiled: Pattern = re2.compile(pattern, quiet_options())
    except re2.error as error:
        raise InvalidPatternError(error.args[0].decode(errors="replace")) from error
    return compiled
