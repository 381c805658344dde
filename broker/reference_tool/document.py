"""Writes docs/errors.md: `python -m broker.reference_tool.document > docs/errors.md`."""

from __future__ import annotations

import sys

from broker.reference_tool.advice import advice_for
from protocol.errors import type_by_code

_INTRODUCTION = """\
# Errors

<!-- Written by `python -m broker.reference_tool.document`; do not edit. -->

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
