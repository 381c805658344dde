"""Our code for a cluster's Python: a zip for `spark-submit --py-files`, and the script that it runs."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

ARCHIVE = "odradek_pipeline.zip"
SCRIPT = "odradek_pipeline.py"
PACKAGES = ("pipeline", "protocol")
SCRIPT_TEXT = '''"""spark-submit [its options] --py-files odradek_pipeline.zip odradek_pipeline.py COMMAND [options]"""

from pipeline.cli import main

main()
'''
OLDEST_IN_A_ZIP = (1980, 1, 1, 0, 0, 0)


def write(folder: Path) -> tuple[Path, Path]:
    """Write archive and script, replacing older ones. The same code produces the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, script = folder / ARCHIVE, folder / SCRIPT
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in PACKAGES:
            for path, inside in _sources(name):
                entry = zipfile.ZipInfo(inside, OLDEST_IN_A_ZIP)
                entry.compress_type = zipfile.ZIP_DEFLATED
                packed.writestr(entry, path.read_bytes())
    script.write_text(SCRIPT_TEXT)
    return archive, script


def _sources(package: str) -> Iterator[tuple[Path, str]]:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise RuntimeError(f"package {package} is not installed")
    root = Path(found.origin).parent
    for path in sorted(root.rglob("*.py")):
        yield path, str(Path(package) / path.relative_to(root))
