"""What the parts of a regular expression match: where each can end, for the places where it may start.

Every place is looked at once for each part, so that the cost is bounded whatever the expression is.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_STEPS = 200_000
"""Places looked at for one text."""

Test = Callable[[str], bool]

POSIX: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in " \t",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: "0" <= c <= "9",
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
CLASSES: dict[str, Test] = {"d": POSIX["digit"], "w": POSIX["word"], "s": lambda c: c in "\t\n\f\r "}
ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
CATEGORIES = {
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
    "C": "cfos",
}
"""Unicode's general categories, each with its kinds."""


class InvalidPattern(ValueError):
    """Not a regular expression, or one that is not served."""


class Run:
    """One text being matched."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = 0

    def spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise InvalidPattern("too complex for a text that it is to match")


Places = set[int]
Part = Callable[[Run, Places], Places]
"""Where a part of the expression can end, if it may start at any of the places."""


def one(test: Test) -> Part:
    def part(run: Run, starts: Places) -> Places:
        run.spend(len(starts))
        text = run.text
        return {at + 1 for at in starts if at < len(text) and test(text[at])}

    return part


def sequence(parts: list[Part]) -> Part:
    def whole(run: Run, starts: Places) -> Places:
        for part in parts:
            if not starts:
                break
            starts = part(run, starts)
        return starts

    return whole


def either(parts: list[Part]) -> Part:
    return lambda run, starts: Places().union(*(part(run, starts) for part in parts))


def times(part: Part, least: int, most: int | None) -> Part:
    def repeated(run: Run, starts: Places) -> Places:
        for _ in range(least):
            run.spend(1)
            starts = part(run, starts)
        found, fresh, count = set(starts), starts, least
        while fresh and (most is None or count < most):
            run.spend(1)
            fresh = part(run, fresh) - found
            found |= fresh
            count += 1
        return found

    return repeated


def where(holds: Callable[[str, int], bool]) -> Part:
    def part(run: Run, starts: Places) -> Places:
        run.spend(len(starts))
        return {at for at in starts if holds(run.text, at)}

    return part


def _at_boundary(text: str, at: int) -> bool:
    word = POSIX["word"]
    return (at > 0 and word(text[at - 1])) != (at < len(text) and word(text[at]))


def _at_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _at_line_end(text: str, at: int) -> bool:
    return at == len(text) or text[at] == "\n"


ASSERTIONS: dict[str, Part] = {
    "A": where(lambda _, at: at == 0),
    "z": where(lambda text, at: at == len(text)),
    "b": where(_at_boundary),
    "B": where(lambda text, at: not _at_boundary(text, at)),
}
LINES = {"^": where(_at_line_start), "$": where(_at_line_end)}
