"""The name that was probably meant, for what is said about one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

LONGEST = 249
"""Characters of a name of a topic. What is longer is compared with nothing."""
MOST_COMPARED, MOST_LOOKED_AT = 20, 1_000
"""Names that are compared letter by letter, which may take milliseconds each, and names of which those are chosen.

Clients choose the names of topics and groups, and how many there are: the hint must not hold up the loop.
"""


def did_you_mean(name: str, known: Iterable[str], *, closeness: float = 0.6, as_sentence: bool = False) -> str:
    """`; did you mean NAME?`, or ` Did you mean NAME?`; empty if no known name is near."""
    found = near(name, known, closeness=closeness)
    return f"{' Did' if as_sentence else '; did'} you mean {found[0]}?" if found else ""


def near(name: str, known: Iterable[str], *, closeness: float = 0.6) -> list[str]:
    """The name that is nearest, if one is near enough; `closeness` is 0 to 1."""
    import difflib  # not needed when every name is known

    if len(name) > LONGEST:
        return []
    matcher = difflib.SequenceMatcher(b=name)

    def likeness(other: str) -> float:
        """How alike they are at most: both have these letters."""
        matcher.set_seq1(other)
        return matcher.quick_ratio()

    def nearness(other: str) -> tuple[bool, int]:
        """A first look, which costs next to nothing."""
        return other[:2] == name[:2], -abs(len(name) - len(other))

    fitting = nlargest(MOST_LOOKED_AT, (candidate for candidate in known if len(candidate) <= LONGEST), nearness)
    chosen = nlargest(MOST_COMPARED, fitting, likeness)
    return difflib.get_close_matches(name, chosen, n=1, cutoff=closeness)
