"""What a rule finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

MOST_NAMED = 5
"""How many partitions or members a sentence names."""


class Severity(IntEnum):
    """How bad it is; the worst comes first."""

    PROBLEM = 0
    """This is why nothing is read."""
    WARNING = 1
    """This may be why."""
    INFO = 2
    """This is how it is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` is the function's name, `text` a sentence, `advice` what to do, if there is something to do."""

    severity: Severity
    rule: str
    text: str
    advice: str = ""


Findings = Iterator[Finding]


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, the worst first."""
    return sorted(findings, key=lambda finding: finding.severity)


# -- words


def seconds(ms: float) -> str:
    """`40 s`; below ten seconds with one decimal."""
    return f"{ms / 1000:.0f} s" if ms >= 9_950 else f"{max(ms, 0) / 1000:.1f} s"


def listed(names: Iterable[str]) -> str:
    """The names, or the first of them and how many more there are."""
    found = list(names)
    text = ", ".join(found[:MOST_NAMED])
    return text if len(found) <= MOST_NAMED else f"{text} and {len(found) - MOST_NAMED} more"


def counted(number: int, what: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
