"""Our code for a cluster's Python: a zip for `spark-submit --py-files`, and the script that it runs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

ARCHIVE = "odradek_pipeline.zip"
SCRIPT = "odradek-pipeline.py"
PACKAGE = "odradek_pipeline"
SCRIPT_TEXT = '''"""spark-submit [its options] --py-files odradek_pipeline.zip odradek-pipeline.py COMMAND [options]"""

from odradek_pipeline.cli import main

main()
'''
OLDEST_IN_A_ZIP = (1980, 1, 1, 0, 0, 0)


def write(folder: Path) -> tuple[Path, Path]:
    """Write archive and script, replacing older ones. The same code produces the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, script = folder / ARCHIVE, folder / SCRIPT
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path, inside in _sources():
            entry = zipfile.ZipInfo(inside, OLDEST_IN_A_ZIP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, path.read_bytes())
    script.write_text(SCRIPT_TEXT)
    return archive, script


def _sources() -> Iterator[tuple[Path, str]]:
    """Each file of the package with its name in the archive; in a checkout, formats are a linked folder."""
    root = Path(__file__).parent
    for folder, folders, names in os.walk(root, followlinks=True):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix == ".py":
                yield path, str(Path(PACKAGE) / path.relative_to(root))
