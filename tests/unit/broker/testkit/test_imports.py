"""A node imports the test kit's side of itself only for the control interface, the console or an explain request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.budgets.measure import imported_by_a_start


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("odradek.console=false",), set()),
        (("odradek.console=true",), {"broker.console.history"}),
        (("odradek.console=false", "odradek.control=127.0.0.1:0"), {"broker.testkit.journal"}),
    ],
)
def test_a_start_imports_of_test_kit_and_console_what_is_switched_on(
    tmp_path: Path, settings: tuple[str, ...], expected: set[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    imported = imported_by_a_start(folder, "odradek.http.port=0", *settings)
    assert "broker.node" in imported
    ours = {name for name in imported if name.startswith(("broker.testkit", "broker.console"))}
    assert expected <= ours if expected else not ours
