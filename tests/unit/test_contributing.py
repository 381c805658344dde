"""CONTRIBUTING.md names files that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_contributing_names_only_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+[\w.]*)`", text)) | set(re.findall(r"\b(docs/\w+\.md)\b", text))
    assert len(named) > 30
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
