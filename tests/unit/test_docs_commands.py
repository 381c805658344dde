"""Each `odradek` command that the documentation names is there, with the options that it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker.program import main as broker
from odradek.cli.main import ALIASES, COMMANDS, odradek
from odradek.location import NODE_COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "deploy" / "odradek.service", *(ROOT / "docs").glob("*.md")]
GENERATED = ("command-line.md", "errors.md")
"""Others test these."""


def named() -> list[str]:
    """The commands of all pages, each once."""
    found: dict[str, None] = {}
    for page in PAGES:
        if page.name not in GENERATED:
            words = "|".join((*NODE_COMMANDS, *COMMANDS, *ALIASES))
            for match in re.finditer(rf"(?:^|[`/ ])odradek ((?:{words})\b[^`\n#]*)", page.read_text(), re.MULTILINE):
                found[match[1].strip()] = None
    return list(found)


def help_of(words: Sequence[str]) -> str:
    """What the command prints with --help: the node's program, or one of `odradek` itself."""
    program = broker if words[0] in NODE_COMMANDS else odradek
    command = program.get_command(click.Context(program), words[0])
    path = [words[0]]
    if isinstance(command, click.Group) and len(words) > 1 and re.match("[a-z]", words[1]):
        path.append(words[1].partition("|")[0])
    run = CliRunner().invoke(program, [*path, "--help"])
    assert run.exit_code == 0, run.output
    return run.output


@pytest.mark.parametrize("command", named())
def test_a_command_of_the_documentation_is_there(command: str) -> None:
    words = shlex.split(command)
    said = help_of(words)
    for option in (word.partition("=")[0] for word in words if word.startswith("-")):
        assert re.search(rf"(^|[\s,\[]){re.escape(option)}\b", said), f"{command}: no option {option}\n{said}"


def test_pages_name_commands() -> None:
    assert len(named()) > 20
