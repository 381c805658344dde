"""The table of definitions against Apache Kafka 4.1's own, as recorded."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.config.cross_checks import CONSUMER_ASSIGNORS
from broker.config.definition import ConfigDef, UpdateMode
from broker.config.defs import BROKER_CONFIGS, CHANGED_DEFAULTS, TOPIC_CONFIGS, alterable, mode_of
from broker.config.defs.not_needed import ALTERED_ONLY, NOT_NEEDED
from broker.config.defs.topics import OF_SCHEMAS
from broker.config.document import document
from coordinator.group.consumer.assignors import ASSIGNORS

ROOT = Path(__file__).parents[4]
KAFKA: dict[str, Any] = json.loads((ROOT / "tests/conformance/data/kafka_configs.json").read_text())
BROKER_ROWS = {row[0]: row for row in KAFKA["broker_definitions"]}


def expected_of(validator: str | None) -> str | None:
    """Kafka's text of a rule, in our words."""
    if validator in (None, "", "non-empty list"):  # of lists: any entries, none twice
        return None
    if bounds := re.fullmatch(r"\[([^,]+),\.\.\.(?:,(.+))?\]", validator):
        return f"from {bounds[1]} to {bounds[2]}" if bounds[2] else f"at least {bounds[1]}"
    return re.sub(r"^\(case insensitive\) ", "", validator).strip("[]")


def assert_same(definition: ConfigDef, row: list[Any]) -> None:
    name, kind, default, validator, _, internal, _ = row
    assert definition.name == name
    assert definition.type.name == kind
    if name not in CHANGED_DEFAULTS:
        assert definition.default_text == default
    assert definition.internal == internal
    rule = definition.check.expected if definition.check else None
    if validator in ("[1,...,9] or -1",) or name.endswith("throttled.replicas"):
        assert rule
    else:
        assert (rule and re.sub("^(one|each) of ", "", rule)) == expected_of(validator)


def test_topic_definitions_are_kafkas_in_kafkas_order() -> None:
    rows = KAFKA["topic_definitions"]
    assert list(TOPIC_CONFIGS) == [*(row[0] for row in rows), *OF_SCHEMAS]
    for row in rows:
        assert_same(TOPIC_CONFIGS[row[0]], row)


@pytest.mark.parametrize(
    "name", [name for name, one in BROKER_CONFIGS.items() if not one.of_plugin and not name.startswith("odradek.")]
)
def test_a_broker_definition_is_kafkas(name: str) -> None:
    row = BROKER_ROWS[name]
    assert_same(BROKER_CONFIGS[name], row)
    if row[6] is not None:
        assert (BROKER_CONFIGS[name].mode is UpdateMode.READ_ONLY) == row[6]


def _texts() -> Iterator[str]:
    """Every string in the code, save in definitions and their rules, as an expression: `.+` for what is filled in."""
    for package in ("broker", "controller", "coordinator", "metadata", "storage"):
        for path in (ROOT / package).rglob("*.py"):
            if not path.match("broker/config/defs/*") and not any(map(path.match, JUDGES)):
                for node in ast.walk(ast.parse(path.read_text())):
                    if isinstance(node, ast.JoinedStr):
                        parts = [str(one.value) if isinstance(one, ast.Constant) else None for one in node.values]
                        yield "".join(".+" if one is None else re.escape(one) for one in parts)
                    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield re.escape(node.value)


JUDGES = (
    "config/cross_checks.py",
    "api/broker_changes.py",
)
"""Where settings are checked, or warned of, that nothing obeys."""


MENTIONED = {
    "metadata.log.dir",  # `odradek format` alone asks for it
    *("principal.builder.class", "ssl.engine.factory.class", "sasl.oauthbearer.jwt.validator.class"),  # refused
    *("group.streams.max.warmup.replicas", "group.streams.min.task.offset.interval.ms"),  # Kafka's default counts
}
"""Named outside of these files, though what they are set to means nothing."""


@pytest.mark.long
def test_what_nothing_reads_says_that_it_has_no_effect() -> None:
    exact = set(_texts())
    patterns = [re.compile(text) for text in exact if ".+" in text and re.search("[a-z]{2}", text)]

    def is_read(name: str) -> bool:
        return re.escape(name) in exact or any(pattern.fullmatch(name) for pattern in patterns)

    for definition in TOPIC_CONFIGS.values():
        assert is_read(definition.name) == definition.has_effect, definition.name
    defaults = {one.name for definition in TOPIC_CONFIGS.values() for one in definition.synonyms}
    for definition in BROKER_CONFIGS.values():
        if definition.name not in defaults:
            assert is_read(definition.name) == definition.has_effect, definition.name
    for definition in ALTERED_ONLY.values():
        assert is_read(definition.name) == definition.has_effect, definition.name
    assert {name for name in NOT_NEEDED if re.escape(name) in exact} == MENTIONED
    for definition in (*BROKER_CONFIGS.values(), *TOPIC_CONFIGS.values()):
        assert definition.has_effect != definition.doc.endswith("No effect here."), definition.name


def test_every_kafka_name_is_either_defined_or_known_as_not_needed() -> None:
    own = {name for name, one in BROKER_CONFIGS.items() if one.of_plugin or name.startswith("odradek.")}
    assert set(BROKER_ROWS) == (set(BROKER_CONFIGS) - own) | set(NOT_NEEDED)
    assert not set(NOT_NEEDED) & set(BROKER_CONFIGS)
    for name, definition in NOT_NEEDED.items():
        _, kind, default, validator, _, internal, read_only = BROKER_ROWS[name]
        assert definition.internal == internal
        if not internal:
            assert (definition.type.name, definition.default_text) == (kind, default)
            assert (mode_of(name) is UpdateMode.READ_ONLY) == read_only
        if name == "share.coordinator.state.topic.compression.codec":  # Kafka checks it where it reads it
            assert validator is None
        elif definition.check and kind != "CLASS":
            assert re.sub("^one of ", "", definition.check.expected) == expected_of(validator)
        else:
            assert internal or "[" not in str(validator)


def test_what_may_be_altered_is_kafkas() -> None:
    assert alterable().keys() - ALTERED_ONLY.keys() == {name for name, row in BROKER_ROWS.items() if row[6] is False}


def test_defaults_keep_their_own_rules() -> None:
    for definition in (*BROKER_CONFIGS.values(), *TOPIC_CONFIGS.values()):
        if definition.default is not None:
            definition.validate(definition.default)
            assert definition.parse(definition.default_text or "") == definition.default


def test_topic_synonyms_are_broker_configurations() -> None:
    for definition in TOPIC_CONFIGS.values():
        for synonym in definition.synonyms:
            assert synonym.name in BROKER_CONFIGS


def test_the_assignors_that_may_be_set_are_those_of_the_coordinator() -> None:
    assert [*CONSUMER_ASSIGNORS] == [*ASSIGNORS]


def test_the_committed_page_is_what_the_definitions_give() -> None:
    assert (ROOT / "docs/configuration.md").read_text() == document()
