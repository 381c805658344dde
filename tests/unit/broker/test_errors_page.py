"""docs/errors.md is what the project knows of errors."""

from __future__ import annotations

from pathlib import Path

from broker.reference_tool.advice import ADVICE
from broker.reference_tool.document import document
from protocol.errors import type_by_code

PAGE = Path(__file__).parents[3] / "docs" / "errors.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == document(), "python -m broker.reference_tool.document > docs/errors.md"


def test_advice_is_a_sentence_for_an_error_of_kafka() -> None:
    for kind, advice in ADVICE.items():
        assert kind in type_by_code.values()
        assert advice.endswith(".")
        assert "|" not in advice, "it stands in a table"
