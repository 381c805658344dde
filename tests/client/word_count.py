"""The application of WordCount.java, which counts words with Kafka Streams, and what it must have counted."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.client.java_tools import compiled

SOURCE = Path(__file__).parent / "java" / "WordCount.java"
APP = "app"
INPUT, OUTPUT = "words", "counts"
THREADS = "1"
_WORDS = ("ant", "bee", "cat", "dog", "elk")


def words(count: int) -> list[str]:
    """So many words, each of a few in turn."""
    return [_WORDS[number % len(_WORDS)] for number in range(count)]


def instance(bootstrap_servers: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start an instance with a folder of its own, and its log beside it; it ends when its stdin is closed."""
    command = [*compiled(SOURCE), bootstrap_servers, APP, INPUT, OUTPUT, THREADS, str(folder)]
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)


def check_counts(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> int:
    """Check that the committed records of the output count each word from one on; return how many there are."""
    found: dict[bytes, list[int]] = defaultdict(list)
    for key, value in pairs:
        assert key is not None and value is not None
        found[key].append(int(value))
    for word, counted in found.items():
        assert counted == list(range(1, len(counted) + 1)), word
    return sum(map(len, found.values()))
