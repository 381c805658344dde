"""The table of docs/rules.md, and the functions that its rows name."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules.md"
ROW = re.compile(
    r"\| (?P<text>.+) \| (?P<kafka>.+) \| `(?P<file>[^`:]+)::(?P<function>[\w.]+)`"
    r" \| `(?P<test>[^`:]+)(?:::(?P<name>\w+))?` \|"
)
HEAD = ("| rule | Kafka | function | test |", "| --- | --- | --- | --- |")


class Rule(NamedTuple):
    """One row of the page; `name` is None if the whole test file shows the rule."""

    text: str
    kafka: str
    file: str
    function: str
    test: str
    name: str | None

    def target(self) -> Any:
        """What does it: a function, or a table. Raises ImportError or AttributeError if there is none."""
        found = import_module(self.file.removesuffix(".py").replace("/", "."))
        for part in self.function.split("."):
            found = getattr(found, part)
        return found

    def code(self) -> CodeType | None:
        """The code of the function; None of a table."""
        target = self.target()
        function: Any = target.fget if isinstance(target, property) else target
        return getattr(unwrap(function), "__code__", None)


@cache
def rules() -> list[Rule]:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line not in HEAD]
    matches = [ROW.fullmatch(row) for row in rows]
    assert None not in matches, [row for row, match in zip(rows, matches, strict=True) if match is None]
    return [Rule(*match.groups()) for match in matches if match is not None]


@cache
def rules_by_test() -> dict[str, list[Rule]]:
    """The rules that a test of this id shows."""
    by_test = defaultdict(list)
    for rule in rules():
        if rule.name is not None:
            by_test[f"{rule.test}::{rule.name}"].append(rule)
    return dict(by_test)
