"""What a broker says about why a consumer gets nothing, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

SIGNS = {"problem": "!!", "warning": " !", "info": "  "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the broker has found.

    Attributes:
        severity: "problem" (this is why), "warning" (this may be why) or "info" (this is how it is).
        rule: a name for it, such as "held_by_transaction".
        text: a sentence.
        advice: what to do; empty if there is nothing to do.
    """

    severity: str
    rule: str
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{SIGNS[self.severity]} {self.text}{f'{chr(10)}   -> {self.advice}' if self.advice else ''}"


class Explanation(list[Finding]):
    """The findings, the worst first; `str()` of it is a text to read."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """`answer` is that of the control interface."""
        super().__init__(Finding(**finding) for finding in answer["findings"])
        self.subject = f"{answer['subject']} {answer['name']}"

    @classmethod
    def of(cls, subject: str, name: str, findings: Iterable[Finding]) -> Self:
        """An explanation of what was found in another way."""
        return cls({"subject": subject, "name": name, "findings": [asdict(one) for one in findings]})

    @property
    def as_json(self) -> list[dict[str, str]]:
        """The findings, as a program reads them."""
        return [asdict(one) for one in self]

    @property
    def problems(self) -> list[Finding]:
        """The findings that say why nothing is read."""
        return [finding for finding in self if finding.severity == "problem"]

    @property
    def rules(self) -> list[str]:
        """The names of what was found."""
        return [finding.rule for finding in self]

    def __str__(self) -> str:
        return "\n".join([self.subject, *(map(str, self) if self else ["   nothing is wrong that the broker can see"])])
