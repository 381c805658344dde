"""No page, example, unit or message lets somebody install `odradek` by its name.

The name is on no package index yet: whoever takes it there would be installed. Until it is published, each line names
the path of a checkout or a wheel. (The changelog says what was said of former releases.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "docs examples kits deploy docker benchmarks tools pipeline odradek broker controller coordinator metadata storage "
    "protocol timing"
)
KINDS = {".md", ".py", ".toml", ".txt", ".yaml", ".yml", ".service", ".sh", ".html", ".tpl", ".xml", ".gradle", ".json"}
KINDS |= {".Dockerfile", ""}
GENERATED = {"node_modules", "target", "__pycache__"}

NAME = r"""(?<![\w./-])["']?odradek(?:[-_]pipeline)?"""
EXTRA = re.compile(NAME + r"\[[a-z,]+\]")
INSTALLED = re.compile(
    r"\b(?:pip3?|pipx|uv|uvx|poetry|pdm|conda)\b[^\n`]*?\b(?:install|add|download|inject|upgrade)\b[^\n`#;&|]*?\s"
    + NAME
    + r"""(?=["'\\]*(?:[\s<>=~!,;)`\\]|$))"""
)
DEPENDENCY = re.compile(r"""^\s*(?:[\w-]+\s*=\s*)?\[?.*?["']odradek(?:[-_]pipeline)?\s*(?:[<>=~!@;][^"']*)?["']""")


def lines() -> Iterator[tuple[str, str]]:
    """Where a line is, and the line."""
    files = [ROOT / name for name in ("README.md", "SECURITY.md", "Makefile")]
    for folder in FOLDERS.split():
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix in KINDS]
    for path in files:
        if not GENERATED & set(path.parts):
            for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
                yield f"{path.relative_to(ROOT)}:{number}", line


def by_name(where: str, line: str) -> bool:
    """Whether the line has a package index asked for odradek."""
    declares = where.startswith("examples/") and ".toml:" in where and DEPENDENCY.search(line) is not None
    return declares or EXTRA.search(line) is not None or INSTALLED.search(line) is not None


@pytest.mark.long
def test_no_line_installs_odradek_by_its_name() -> None:
    found = [f"{where}: {line}" for where, line in lines() if by_name(where, line)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("docs/a.md:1", "pip install odradek"),
        ("docs/a.md:1", "pip install --no-deps odradek pytest"),
        ("docs/a.md:1", "Avro needs `pip install 'odradek[avro]'`."),
        ("docs/a.md:1", "the extra `odradek[otlp]`"),
        ("odradek/a.py:1", r'return f"{python} has no odradek: {python} -m pip install odradek\n"'),
        ("docs/a.md:1", "uv add --dev odradek==8.0.0"),
        ("docs/a.md:1", "/opt/odradek/bin/pip install odradek-pipeline"),
        ("examples/a/pyproject.toml:9", 'test = ["odradek", "pytest>=8"]'),
    ],
)
def test_such_a_line_is_found(where: str, line: str) -> None:
    assert by_name(where, line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install '/path/to/odradek[cli]'",
        "/opt/odradek/bin/pip install /path/to/odradek",
        "pip install ./pipeline               # which has odradek-pipeline",
        "pip install /path/to/odradek        # and then: odradek serve",
        "`pip install --user` does not help: odradek is isolated",
    ],
)
def test_a_path_is_allowed(line: str) -> None:
    assert not by_name("docs/a.md:1", line)


def test_the_files_that_pages_make_in_a_checkout_are_ignored() -> None:
    ignored = (ROOT / ".gitignore").read_text().split()
    page = (ROOT / "docs" / "security.md").read_text()
    made = set(re.findall(r"odradek\.(?:users\.file|tls\.folder)=([\w.-]+)\"?(?=[\s\"])", page))
    made |= set(re.findall(r"^mkdir -p (\w+)", page, re.MULTILINE))
    assert {"users", "tls", "secrets"} <= made
    assert [name for name in sorted(made) if f"/{name}" not in ignored and f"/{name}/" not in ignored] == []
