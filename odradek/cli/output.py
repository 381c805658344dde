"""The output of a command: tables and sentences for people, one JSON document for programs (`--json`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from odradek.report import Explanation
from odradek.terminal import columns_of, printable


class Output:
    """Everything that a command prints goes through here."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.failures = 0
        self._results: list[dict[str, Any]] = []
        self._has_document = False
        self._reported: set[tuple[object, str]] = set()

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print rows below their titles; as JSON, an array of objects."""
        found = [list(row) for row in rows]
        if self.as_json:
            self.document([dict(zip(columns, row, strict=True)) for row in found])
        else:
            self.lines([titles(columns), *found])

    def document(self, value: object) -> None:
        """Print JSON. What was refused stands at the end of an array, so that there is one document."""
        if isinstance(value, list):
            value, self._results = [*value, *self._results], []
        self._has_document = True
        click.echo(json.dumps(value, indent=2, default=str))

    def lines(self, rows: Sequence[Sequence[object]]) -> None:
        """Print rows whose columns stand below each other."""
        for line in aligned(rows):
            click.echo(line)

    def result(self, what: Mapping[str, Any], done: str) -> None:
        """Tell that something was done: `what` are the fields of JSON, the first of which has the name."""
        self._results.append({**what, "result": done})
        if not self.as_json:
            kind, name = next(iter(what.items()))
            click.echo(printable(f"{kind.replace('_', ' ')} {name}: {done}"))

    def failure(self, what: Mapping[str, Any], name: str, text: str) -> None:
        """Tell, once, that one of several things was refused; the command goes on, and ends with status 1."""
        kind, named = next(iter(what.items()))
        if (named, name) in self._reported:
            return
        self._reported.add((named, name))
        self.failures += 1
        self._results.append({**what, "error": name, "message": text})
        click.echo(f"Error: {kind.replace('_', ' ')} {printable(str(named))}: {text}", err=True)

    def end(self) -> None:
        """Print the results as JSON, if that was asked for: an empty array if there is nothing to tell.

        Raises Exit with status 1 if something was refused.
        """
        if self.as_json and (self._results or not self._has_document):
            self.document([])
        if self.failures:
            raise click.exceptions.Exit(1)


def aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    """The rows as lines whose columns stand below each other."""
    texts = [[shown(value) for value in row] for row in rows]
    widths = [max(map(columns_of, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(text + " " * (width - columns_of(text)) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


def titles(columns: Iterable[str]) -> list[str]:
    """The titles of columns, as tables have them."""
    return [title.upper().replace("_", "-") for title in columns]


def print_explanation(out: Output, explanation: Explanation) -> None:
    """Print what was found out. Raises Exit with status 1 if there is a problem."""
    if out.as_json:
        out.document(explanation.as_json)
    else:
        click.echo("\n".join(map(printable, str(explanation).split("\n"))))
    if explanation.problems:
        raise click.exceptions.Exit(1)


def shown(value: object) -> str:
    """A value in a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return printable(",".join(map(str, value))) or "-"
    return printable(str(value))
