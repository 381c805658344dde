"""Every file and every test that docs/rules.md names exists, and the page has the rules that it should have."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules.md"
ROW = re.compile(r"\| (?P<rule>.+) \| (?P<kafka>.+) \| `(?P<file>[^`]+)` \| `(?P<test>[^`:]+)(?:::(?P<name>\w+))?` \|")


class Rule(NamedTuple):
    """One row of the page; `name` is None if the whole test file shows the rule."""

    rule: str
    kafka: str
    file: str
    test: str
    name: str | None


@cache
def rules() -> list[Rule]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = [line for line in lines if line not in ("| rule | Kafka | file | test |", "| --- | --- | --- | --- |")]
    found = [ROW.fullmatch(row) for row in rows]
    assert None not in found, [row for row, match in zip(rows, found, strict=True) if match is None]
    return [Rule(*match.groups()) for match in found if match is not None]


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_rule_names_files_that_exist() -> None:
    paths = {path for rule in rules() for path in (rule.file, rule.test)}
    assert [path for path in sorted(paths) if not (ROOT / path).is_file()] == []


def test_each_rule_names_a_test_that_exists() -> None:
    missing = [
        f"{rule.test}::{rule.name}" for rule in rules() if rule.name and rule.name not in functions_of(rule.test)
    ]
    assert missing == []


def test_each_rule_is_there_once() -> None:
    texts = [rule.rule for rule in rules()]
    assert len(texts) == len(set(texts)) > 100
