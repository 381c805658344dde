"""docs/apis.md lists what is served, with the rights, and what a fault can select."""

from __future__ import annotations

from pathlib import Path

from protocol.api.document import document

PAGE = Path(__file__).parents[3] / "docs" / "apis.md"


def test_the_committed_page_is_what_the_table_gives() -> None:
    assert document() == PAGE.read_text(), "run: python -m protocol.api.document > docs/apis.md"
