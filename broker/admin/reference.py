"""`odradek explain error|setting NAME`, and the page docs/errors.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import click

from broker.admin.advice import advice_for
from broker.config.definition import ConfigDef
from broker.config.defs import BROKER_CONFIGS, TOPIC_CONFIGS
from broker.nearest import did_you_mean
from protocol.errors import KafkaError, type_by_code


@click.group("explain")
def main() -> None:
    """Say what an error or a setting means."""


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@main.command()
@click.argument("name")
@_as_json
def error(name: str, as_json: bool) -> None:
    """Say what an error means: NAME is Kafka's name, such as UNKNOWN_TOPIC_OR_PARTITION, or its code."""
    kinds = {code.name.upper(): kind for code, kind in type_by_code.items()}
    codes = {str(code.value): code.name.upper() for code in type_by_code}
    wanted = name.strip().upper().replace(" ", "_")
    found = codes.get(wanted, wanted)
    if found not in kinds:
        raise click.ClickException(f"Kafka has no error {name!r}{did_you_mean(found, kinds, closeness=0.5)}")
    _print_error(found, kinds[found], as_json)


def _print_error(name: str, kind: type[KafkaError], as_json: bool) -> None:
    code, meaning, advice = kind.code, kind.default_message, advice_for(kind)
    if as_json:
        _print_json(error=name, code=code.value, meaning=meaning, retriable=code.retriable, advice=advice)
        return
    click.echo(f"{name}, code {code.value}")
    click.echo(f"  {meaning}")
    again = "may try again" if code.retriable else "will get the same answer again"
    click.echo(f"  A client that gets it {again}.")
    if advice:
        click.echo(f"  {advice}")


def _print_json(**found: object) -> None:
    click.echo(json.dumps(found, indent=2))


@main.command()
@click.argument("name")
@_as_json
def setting(name: str, as_json: bool) -> None:
    """Say what a setting of a broker or a topic means, its default, and what it may be."""
    kinds = [("broker", BROKER_CONFIGS.get(name)), ("topic", TOPIC_CONFIGS.get(name))]
    found = {kind: definition for kind, definition in kinds if definition is not None}
    if not found:
        meant = did_you_mean(name, [*BROKER_CONFIGS, *TOPIC_CONFIGS], closeness=0.5)
        raise click.ClickException(f"there is no setting {name!r}{meant}")
    if as_json:
        _print_json(setting=name, **{kind: _fields(definition) for kind, definition in found.items()})
        return
    for kind, definition in found.items():
        for line in _lines(kind, definition):
            click.echo(line)


def _fields(definition: ConfigDef) -> dict[str, object]:
    return {
        "meaning": definition.doc,
        "default": None if definition.sensitive else definition.default_text,
        "unit": definition.unit or None,
        "expected": definition.expected,
        "brokers_default_is_in": [synonym.name for synonym in definition.synonyms],
    }


def _lines(kind: str, definition: ConfigDef) -> Iterator[str]:
    yield f"{definition.name}, of a {kind}"
    yield f"  {definition.doc}"
    default = "(hidden)" if definition.sensitive else definition.default_text
    unit = f" {definition.unit}" if definition.unit and default else ""
    yield f"  default: {default if default not in (None, '') else 'none'}{unit}"
    yield f"  expected: {definition.expected}"
    if definition.synonyms:
        yield f"  the broker's default is in: {', '.join(synonym.name for synonym in definition.synonyms)}"


_INTRODUCTION = """\
# Errors

<!-- Written by `python -m broker.admin.reference`; do not edit. -->

Every error of Kafka's protocol. `odradek explain error NAME` shows one of them, by its name or its code. After a
*retriable* error a client may send the same request again, and clients do so by themselves.

| code | error | what it means | retriable | what to do |
| ---: | --- | --- | --- | --- |
"""


def document() -> str:
    """The whole page."""
    rows = []
    for code, kind in sorted(type_by_code.items(), key=lambda each: each[0].value):
        retriable = "yes" if code.retriable else ""
        name = code.name.upper()
        rows.append(f"| {code.value} | {name} | {kind.default_message} | {retriable} | {advice_for(kind)} |\n")
    return _INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(document())
