"""docs/errors.md is what the project knows of errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.admin.advice import ADVICE, BETWEEN_NODES
from broker.admin.reference import document
from broker.admin.reference import main as explain
from odradek.cli.main import odradek
from protocol.errors import type_by_code

COMMANDS = sorted({command for advice in ADVICE.values() for command in re.findall("`odradek ([^`]+)`", advice)})
PAGE = Path(__file__).parents[4] / "docs" / "errors.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == document(), "python -m broker.admin.reference > docs/errors.md"


def test_advice_is_a_sentence_for_an_error_of_kafka() -> None:
    for kind, advice in ADVICE.items():
        assert kind in type_by_code.values()
        assert advice.endswith(".")
        assert "|" not in advice, "it stands in a table"


def test_each_error_that_a_client_can_get_has_advice() -> None:
    assert set(type_by_code.values()) == ADVICE.keys() | BETWEEN_NODES
    assert not ADVICE.keys() & BETWEEN_NODES


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_the_advice_names_exists(command: str) -> None:
    words = [word for word in command.split() if not word.isupper()]
    runner = CliRunner()
    if words[0] == "explain":
        found = runner.invoke(explain, [*words[1:], "--help"])
    else:
        found = runner.invoke(odradek, [*words, "--help"])
    assert found.exit_code == 0, found.output
    assert f"{words[-1]} " in found.output.partition("\n")[0] or words[-1] == "--help"
