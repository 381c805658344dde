"""Java's regular expressions, as settings of Kafka have them, compiled by Python's engine.

What the two write alike is taken, and what only Java has and Python can express is rewritten: `(?<name>..)`, `\\z`,
`\\Q..\\E`, and a `.` that fits no end of a line. `\\d`, `\\w`, `\\s`, `\\b` and `(?i)` are about ASCII, as in Java. All
else is refused by name, since the same text would be another pattern here.
"""

from __future__ import annotations

import re
from functools import cache

_DOT = "[^\n\r\x85\u2028\u2029]"
_PLAIN_ESCAPES = "dDwWsStnrfa"
_PART = r"""(?sx)
    (?P<quoted>\\Q (?P<text>.*?) (?:\\E|\Z))
    | (?P<escape>\\ (?:x[0-9a-fA-F]{2} | u[0-9a-fA-F]{4} | k<[a-zA-Z][a-zA-Z0-9]*> | .))
    | (?P<group>\(\? (?:<[a-zA-Z][a-zA-Z0-9]*> | <?[=!] | [:>] | [a-zA-Z-]*[:)] | .?))
    | (?P<count>\{ (?:[0-9]+ (?:,[0-9]*)? \})?)
    | (?P<other>.)
"""


@cache
def _parts() -> re.Pattern[str]:
    """`_PART`, compiled when the first pattern is read, which most nodes have none of."""
    return re.compile(_PART)


class JavaPatternError(ValueError):
    """A pattern that is none in Java, or that cannot be taken here. The text says what is to be changed."""


def compile_java(pattern: str) -> re.Pattern[str]:
    """The pattern, for `fullmatch` as Java's `matches`, or `search` as its `find`. Raises JavaPatternError."""
    try:
        return re.compile(_Translation(pattern).text(), re.ASCII)
    except re.error as error:
        raise JavaPatternError(f"{pattern!r} is no regular expression: {error.msg}") from error
    except (OverflowError, RecursionError) as error:  # too large a count, too many brackets
        raise JavaPatternError(f"{pattern!r} is too large a regular expression") from error


class _Translation:
    """One pattern, gone through once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._any = _DOT

    def text(self) -> str:
        """The pattern as Python's engine writes it. Raises JavaPatternError."""
        parts: list[str] = []
        while self._at < len(self._pattern):
            if self._pattern[self._at] == "[":
                parts.append(self._class())
                continue
            match = _parts().match(self._pattern, self._at)
            assert match is not None
            self._at = match.end()
            parts.append(self._token(match))
        return "".join(parts)

    def _token(self, match: re.Match[str]) -> str:
        found = match[0]
        match match.lastgroup:
            case "quoted":
                return "".join(map(re.escape, match["text"]))
            case "escape":
                return self._escape(found)
            case "group":
                return self._group(found)
            case "count" if found == "{":
                raise self._refusal("{ without a count, which Java does not take: write \\{")
        return self._any if found == "." else found

    def _escape(self, text: str) -> str:
        letter = text[1:2]
        if letter in ("z", "B"):
            return r"\Z" if letter == "z" else r"(?!\b)"  # Python's \B does not fit an empty text
        if text.startswith("\\k<"):
            return f"(?P={text[3:-1]})"
        if letter in "bA123456789" and letter:
            if letter.isdigit() and self._pattern[self._at : self._at + 1].isdigit():
                raise self._refusal(f"{text}{self._pattern[self._at]}, a reference to a group beyond the ninth")
            return text
        return self._plain_escape(text)

    def _plain_escape(self, text: str) -> str:
        """An escape that means the same in a class and outside."""
        letter = text[1:2]
        if len(text) > 2 or letter in _PLAIN_ESCAPES or not (letter.isascii() and letter.isalnum()):
            return text if letter.isascii() else letter
        rest = self._pattern[self._at :]
        more = rest.partition("}")[0] + "}" if rest.startswith("{") else ""
        hint = ": write the characters as a class, such as [A-Za-z]" if letter in "pPhHvV" else ""
        raise self._refusal(f"{text}{more}, which has another meaning here or none{hint}")

    def _group(self, text: str) -> str:
        if text in ("(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!"):
            return text
        if text.startswith("(?<") and text.endswith(">"):
            return "(?P<" + text[3:]
        flags = frozenset(text[2:-1])
        if text == "(?i:":
            return text
        if text.endswith(")") and flags and flags <= {"i", "s"} and self._at == len(text):
            self._any = r"[\s\S]" if "s" in flags else _DOT
            return "(?i)" if "i" in flags else ""
        raise self._refusal(f"{text}, which is not taken here: (?i) and (?s) are at the beginning alone")

    def _class(self) -> str:
        """A class in brackets, from the one that opens it."""
        begin = self._at
        self._at += 2 if self._pattern.startswith("[^", self._at) else 1
        parts = [self._pattern[begin : self._at]]
        if self._pattern[self._at : self._at + 1] == "]":  # it closes nothing yet
            self._at += 1
            parts.append(r"\]")
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == "]":
                self._at += 1
                return "".join(parts) + "]"
            if char == "[":
                raise self._refusal("a class inside a class ([a-z[0-9]]): write one class, or \\[")
            if self._pattern.startswith("&&", self._at):
                raise self._refusal("&& in a class (an intersection): write the characters that remain")
            parts.append(self._of_class(char))
        raise self._refusal("[ without its ]")

    def _of_class(self, char: str) -> str:
        self._at += 1
        if char != "\\":
            return "\\" + char if char in "-~|" and self._is_doubled(char) else char
        match = _parts().match(self._pattern, self._at - 1)
        assert match is not None
        found = match[0]
        self._at = match.end()
        if match.lastgroup != "escape" or found[1:2] in ("", "k"):
            raise self._refusal(f"{found} in a class")
        return self._plain_escape(found)

    def _is_doubled(self, char: str) -> bool:
        """Whether the next character is the same, which Python's engine warns of."""
        return char != "-" and self._pattern[self._at : self._at + 1] == char

    def _refusal(self, what: str) -> JavaPatternError:
        return JavaPatternError(f"{self._pattern!r} has {what}")
