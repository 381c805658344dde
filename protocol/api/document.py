"""`python -m protocol.api.document` prints the table of served APIs that docs/compatibility.md holds."""

from __future__ import annotations

import sys

from .table import API_TABLE

HEADER = ("| key | API | served | notes |", "| --- | --- | --- | --- |")


def api_table() -> str:
    """The rows of the API table, as Markdown."""
    lines = list(HEADER)
    for api in API_TABLE:
        name = "".join(word.capitalize() for word in api.name.split("_"))
        notes = []
        if api.advertised_lowest != api.lowest:
            notes.append(f"advertised from {api.advertised_lowest}, as Kafka does")
        if not api.advertised:
            notes.append("advertised once metrics of clients are subscribed to; in Kafka, where a receiver plugin is")
        lines.append(f"| {api.key} | {name} | {api.lowest}-{api.highest} | {', '.join(notes)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(api_table())
