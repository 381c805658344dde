"""Each `odradek` command that the documentation names is there, with the options that it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.__main__ import main as broker
from odradek import explain_command, snapshot_command
from odradek.cli.main import COMMANDS, odradek

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "deploy" / "odradek.service", *(ROOT / "docs").glob("*.md")]
GENERATED = ("command-line.md", "errors.md")
"""Others test these."""
OWN = ("serve", "log", "format", "user", "metadata", "explain", "doctor", "backup", "snapshot")
SUBCOMMANDS = ("log", "user", "metadata", "explain", "backup", "snapshot", *COMMANDS)


def named() -> list[str]:
    """The commands of all pages, each once."""
    found: dict[str, None] = {}
    for page in PAGES:
        if page.name not in GENERATED:
            words = "|".join((*OWN, *COMMANDS))
            for match in re.finditer(rf"(?:^|[`/ ])odradek ((?:{words})\b[^`\n#]*)", page.read_text(), re.MULTILINE):
                found[match[1].strip()] = None
    return list(found)


def help_of(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command prints with --help: one that is a client's, the broker's, or asks the control interface."""
    path = [words[0], *(word for word in words[1:2] if words[0] in SUBCOMMANDS and re.fullmatch("[a-z][a-z-]+", word))]
    asks = explain_command.main if path[0] == "explain" else snapshot_command.main
    if (
        path[0] in ("explain", "backup", "snapshot")
        and path[-1] not in ("error", "setting", "verify")
        and ("-b" not in words)
    ):
        with pytest.raises(SystemExit):
            asks(["--help"])
        return capsys.readouterr().out
    is_client = path[0] not in OWN or "-b" in words
    path = path[:1] if path[0] == "explain" and is_client else path
    run = CliRunner().invoke(odradek if is_client else broker, [*path, "--help"])
    assert run.exit_code == 0, run.output
    return run.output


@pytest.mark.parametrize("command", named())
def test_a_command_of_the_documentation_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    said = help_of(words, capsys)
    for option in (word.partition("=")[0] for word in words if word.startswith("-")):
        assert re.search(rf"(^|[\s,\[]){re.escape(option)}\b", said), f"{command}: no option {option}\n{said}"


def test_pages_name_commands() -> None:
    assert len(named()) > 20
