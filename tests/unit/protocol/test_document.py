"""docs/compatibility.md lists what is served."""

from __future__ import annotations

from pathlib import Path

from protocol.api.document import api_table

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"


def test_the_page_holds_the_api_table_as_it_is() -> None:
    assert api_table() in PAGE.read_text(), "run: python -m protocol.api.document, and put its output into the page"
