"""The functions and tests that docs/rules.md and docs/glossary.md name exist; `conftest.py` holds them together."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module

from tests.unit.rules import ROOT, Rule, rules

GLOSSARY = ROOT / "docs" / "glossary.md"


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_rule_names_a_function_that_exists() -> None:
    """Not one that keeps its results: whether a test calls it would depend on the tests before."""
    for rule in rules():
        assert not hasattr(rule.target(), "cache_info"), rule


def test_a_table_that_a_rule_names_is_imported_by_its_test() -> None:
    tables = [rule for rule in rules() if rule.code() is None]
    assert 0 < len(tables) < 10
    for rule in tables:
        module = import_module(rule.test.removesuffix(".py").replace("/", "."))
        assert any(value is rule.target() for value in vars(module).values()), rule


def test_each_rule_names_a_test_that_exists() -> None:
    def is_there(rule: Rule) -> bool:
        return (ROOT / rule.test).is_file() and (rule.name is None or rule.name in functions_of(rule.test))

    assert [rule for rule in rules() if not is_there(rule)] == []


def test_nearly_all_rules_name_one_test_whose_calls_are_looked_at() -> None:
    assert [rule.text for rule in rules() if rule.name is None and "scenarios" not in rule.test][3:] == []


def test_each_rule_is_there_once() -> None:
    texts = [rule.text for rule in rules()]
    assert len(texts) == len(set(texts)) > 180


def test_what_the_glossary_names_exists() -> None:
    pointers = re.findall(r"`((?:\w+/)+\w+\.py)::([\w.]+)`", GLOSSARY.read_text())
    assert len(pointers) > 20
    for path, name in pointers:
        target = import_module(path.removesuffix(".py").replace("/", "."))
        for part in name.split("."):
            target = getattr(target, part)
