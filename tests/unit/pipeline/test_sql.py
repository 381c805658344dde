"""Names in Spark's SQL."""

from __future__ import annotations

import pytest

from odradek_pipeline.files import quoted


@pytest.mark.parametrize(("name", "sql"), [("t", "`t`"), ("a.b", "`a.b`"), ("a`b", "`a``b`"), ("``", "``````")])
def test_a_quoted_name_is_one_identifier(name: str, sql: str) -> None:
    assert quoted(name) == sql
