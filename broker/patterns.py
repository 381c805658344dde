"""Regular expressions of requests, in RE2's syntax and, as there, of bounded cost (Kafka uses RE2/J).

Python's own engine would let a client stall the node. Not there: scripts (`\\p{Greek}`), `\\Q`, and anything that takes
more than so many steps. Repeats may be lazy, which makes no difference to whether a whole text matches.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from broker.pattern_parts import (
    ASSERTIONS,
    CATEGORIES,
    CLASSES,
    ESCAPES,
    LINES,
    POSIX,
    InvalidPattern,
    Part,
    Run,
    Test,
    either,
    one,
    sequence,
    times,
)

MOST_REPEATS = 1000
DEEPEST = 100


class Pattern:
    """A compiled expression."""

    def __init__(self, text: str) -> None:
        """Raises InvalidPattern."""
        self._part = _Parser(text).parse()

    def matches(self, text: str) -> bool:
        """Whether the whole of ``text`` is what the expression describes.

        Raises InvalidPattern if that takes too many steps.
        """
        return len(text) in self._part(Run(text), {0})


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = frozenset[str]()
        self._depth = 0

    def parse(self) -> Part:
        part = self._alternatives()
        if self._at < len(self._text):
            raise InvalidPattern("unexpected )")
        return part

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise InvalidPattern("unexpected end")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, prefix: str) -> bool:
        if not self._text.startswith(prefix, self._at):
            return False
        self._at += len(prefix)
        return True

    # -- structure

    def _alternatives(self) -> Part:
        """Flags that are set inside end with it."""
        flags = self._flags
        parts = [sequence(list(self._parts()))]
        while self._skip("|"):
            parts.append(sequence(list(self._parts())))
        self._flags = flags
        return parts[0] if len(parts) == 1 else either(parts)

    def _parts(self) -> Iterator[Part]:
        while self._next() not in ("", "|", ")"):
            atom = self._atom()
            count = self._count()
            if count is None:
                if atom is not None:
                    yield atom
                continue
            if atom is None:
                raise InvalidPattern("missing argument to repetition operator")
            self._skip("?")
            if self._count() is not None:
                raise InvalidPattern("invalid nested repetition operator")
            yield times(atom, *count)

    def _count(self) -> tuple[int, int | None] | None:
        """A repetition operator's bounds; None if there is none."""
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(operator):
                return bounds
        end = self._text.find("}", self._at)
        if self._next() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or not (_is_number(high) or high == ""):
            return None  # RE2 takes it as it stands
        self._at = end + 1
        least = int(low)
        most = int(high) if high else None if comma else least
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise InvalidPattern("invalid repeat count")
        return least, most

    # -- atoms

    def _atom(self) -> Part | None:
        """None for what sets flags only."""
        character = self._take()
        match character:
            case "(":
                return self._group()
            case "[":
                return one(self._folding(self._class()))
            case ".":
                return one(lambda c: True) if "s" in self._flags else one(lambda c: c != "\n")
            case "^" | "$":
                return LINES[character] if "m" in self._flags else ASSERTIONS["A" if character == "^" else "z"]
            case "*" | "+" | "?":
                raise InvalidPattern("missing argument to repetition operator")
            case "\\":
                return self._escaped()
        return self._character(character)

    def _group(self) -> Part | None:
        flags = self._flags
        if self._skip("?"):
            if self._skip("P<") or self._skip("<"):
                self._name()
            elif self._new_flags():
                return None
        self._depth += 1
        if self._depth > DEEPEST:
            raise InvalidPattern("expression nests too deeply")
        part = self._alternatives()
        if not self._skip(")"):
            raise InvalidPattern("missing closing )")
        self._depth -= 1
        self._flags = flags
        return part

    def _name(self) -> None:
        name = ""
        while (character := self._take()) != ">":
            name += character
        if not name or not all(map(POSIX["word"], name)):
            raise InvalidPattern("invalid named capture")

    def _new_flags(self) -> bool:
        """After `(?`; whether they are to hold for the rest of the group around."""
        on, seen = True, 0
        while (character := self._take()) not in ":)":
            if character == "-" and on:
                on = False
            elif character in "imsU":
                self._flags = self._flags | {character} if on else self._flags - {character}
                seen += 1
            else:
                raise InvalidPattern("invalid or unsupported Perl syntax")
        if (character == ")" or not on) and not seen:
            raise InvalidPattern("missing argument to flags")
        return character == ")"

    def _escaped(self) -> Part:
        character = self._take()
        if character in ASSERTIONS:
            return ASSERTIONS[character]
        if character == "C":
            return one(lambda c: True)
        return one(self._folding(self._escaped_test(character)))

    def _escaped_test(self, character: str) -> Test:
        """After a backslash, inside of a class or not."""
        if character.lower() in CLASSES:
            test = CLASSES[character.lower()]
            return (lambda c: not test(c)) if character.isupper() else test
        if character in "pP":
            return self._category(character == "P")
        value = self._escaped_character(character)
        return lambda c: c == value

    def _escaped_character(self, character: str) -> str:
        if character in ESCAPES:
            return ESCAPES[character]
        if character == "x":
            return self._hexadecimal()
        if character.isascii() and character.isalnum():
            raise InvalidPattern(f"invalid escape sequence \\{character}")
        return character

    def _hexadecimal(self) -> str:
        digits = self._braced() if self._skip("{") else self._take() + self._take()
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError) as error:
            raise InvalidPattern("invalid escape sequence") from error

    def _braced(self) -> str:
        inner = ""
        while (character := self._take()) != "}":
            inner += character
        return inner

    def _category(self, negated: bool) -> Test:
        name = self._braced() if self._skip("{") else self._take()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if not name or name[0] not in CATEGORIES or name[1:] not in ("", *CATEGORIES[name[0]]):
            raise InvalidPattern(f"invalid character class range {name}")
        return lambda c: unicodedata.category(c).startswith(name) != negated

    def _class(self) -> Test:
        negated = self._skip("^")
        tests: list[Test] = []
        while not tests or self._next() != "]":
            tests.append(self._class_item())
        self._take()
        return lambda c: any(test(c) for test in tests) != negated

    def _class_item(self) -> Test:
        if self._skip("[:"):
            name, _, _ = self._text[self._at :].partition(":]")
            negated = name.startswith("^")
            test = POSIX.get(name.removeprefix("^"))
            if test is None:
                raise InvalidPattern("invalid character class range")
            self._at += len(name) + 2
            return lambda c: test(c) != negated
        character = self._take()
        if character == "\\":
            character = self._take()
            if character.lower() in CLASSES or character in "pP":
                return self._escaped_test(character)
            character = self._escaped_character(character)
        low = high = character
        if self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._take()
            high = self._take()
            if high == "\\":
                high = self._escaped_character(self._take())
            if high < low:
                raise InvalidPattern("invalid character class range")
        return lambda c: low <= c <= high

    def _character(self, character: str) -> Part:
        return one(self._folding(lambda c: c == character))

    def _folding(self, test: Test) -> Test:
        if "i" not in self._flags:
            return test
        return lambda c: test(c) or test(c.lower()) or test(c.upper())


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
