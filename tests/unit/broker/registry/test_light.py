"""What is not asked for is not loaded: no registry without its setting, no library before a schema of its kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.budgets.measure import imported_by_a_start

ROOT = Path(__file__).parents[4]
LIBRARIES = ("avro", "jsonschema", "google", "protoc", "fastavro")


@pytest.mark.parametrize("setting", ["", "http://127.0.0.1:0"])
def test_a_start_imports_the_registry_where_it_is_asked_for(tmp_path: Path, setting: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    imported = imported_by_a_start(folder, "odradek.http.port=0", f"schema.registry.listeners={setting}")
    ours = {name for name in imported if name.startswith("broker.registry")}
    assert bool(ours) == bool(setting)
    assert not {name for name in ours if name.startswith("broker.registry.formats.") and "parsed" not in name}


def test_a_broker_of_the_test_kit_imports_the_registry_when_a_test_asks_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    imported = imported_by_a_start(folder, "odradek.http.port=0", "odradek.control=127.0.0.1:0")
    assert {name for name in imported if name.startswith("broker.registry.")} == {"broker.registry.host"}


def test_the_registry_itself_imports_no_library_of_a_kind() -> None:
    code = (
        "import sys, broker.registry.server, broker.registry.app;"
        f"print([name for name in sys.modules if name.split('.')[0] in {LIBRARIES}])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
