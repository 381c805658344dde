"""What the kits of other languages take from the control interface is as it is now, and they name no registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.kits.generate import KITS, files

GENERATED = files()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_files_are_those_of_the_control_interface(path: Path) -> None:
    assert path.read_text() == GENERATED[path], "python -m tools.kits.generate writes them anew"


def test_poms_and_lockfiles_name_no_registry() -> None:
    roots = (KITS, KITS.parent / "examples")
    named = [path for root in roots for kind in ("pom.xml", "package-lock.json") for path in root.rglob(kind)]
    for path in named:
        if "node_modules" in path.parts:
            continue
        text = path.read_text()
        assert "<repositor" not in text, path
        assert "<pluginRepositor" not in text, path
        for resolved in re.findall(r'"resolved": "(.*)"', text):
            assert resolved.startswith("../"), f"{path} names {resolved}"
