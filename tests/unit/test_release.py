"""What a release writes into the files of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release import CHART, PROJECTS, ReleaseError, chart_with_version, checked, released, with_version

ROOT = Path(__file__).parents[2]
CHANGES = "# Changelog\n\n## 0.2.0 (unreleased)\n\n- Something.\n\n## 0.1.0 (2026-01-01)\n\n- The first.\n"


def test_every_project_gets_the_version_and_nothing_else_changes() -> None:
    for name in PROJECTS:
        text = (ROOT / name).read_text()
        changed = with_version(text, "7.8.9")
        assert [line for line in changed.splitlines() if line not in text.splitlines()] == ['version = "7.8.9"']


def test_the_chart_starts_the_same_version() -> None:
    lines = chart_with_version((ROOT / CHART).read_text(), "7.8.9").splitlines()
    assert {"version: 7.8.9", "appVersion: 7.8.9"} <= set(lines)


def test_the_unreleased_section_becomes_the_version_s() -> None:
    assert released(CHANGES, "0.2.0", "2026-11-27") == CHANGES.replace("(unreleased)", "(2026-11-27)")
    assert "## 1.0.0 (2026-11-27)\n\n- Something." in released(CHANGES, "1.0.0", "2026-11-27")


@pytest.mark.parametrize(
    "changelog", [CHANGES.replace("(unreleased)", "(2026-02-02)"), "## 0.2.0 (unreleased)\n\n## 0.1"]
)
def test_without_changes_there_is_no_release(changelog: str) -> None:
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md"):
        released(changelog, "0.2.0", "2026-11-27")


@pytest.mark.parametrize("version", ["", "1", "v1.2.3", "1.2.3-rc1", "1.2.3 "])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match="version"):
        checked(version)


def test_this_project_could_be_released() -> None:
    assert "(unreleased)" not in released((ROOT / "CHANGELOG.md").read_text(), "0.1.0", "2026-11-27")
