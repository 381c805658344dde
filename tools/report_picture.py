"""Draws docs/failing-test.svg: what a user sees when a test fails. `python -m tools.report_picture`.

It writes the test below into a folder, runs pytest there, and draws what that printed, in its colours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "failing-test.svg"

SERVICE = """\
import json

from confluent_kafka import Consumer, Producer


def ship_next_order(config):
    consumer = Consumer({**config, "client.id": "shipping", "group.id": "shipping", "auto.offset.reset": "earliest"})
    producer = Producer({**config, "client.id": "shipping", "transactional.id": "shipping"})
    consumer.subscribe(["orders"])
    producer.init_transactions()
    producer.begin_transaction()
    order = json.loads(consumer.poll(30).value())
    producer.produce("shipments", json.dumps({"order": order["id"], "pieces": order["pieces"]}), key=str(order["id"]))
    producer.flush()
    # and who commits?
"""

TEST = """\
import pytest
from shipping import ship_next_order


@pytest.mark.odradek(topics={"orders": 1, "shipments": 1})
def test_an_order_is_shipped(odradek, odradek_client_config):
    odradek.topic("shipments").produce({"order": 6, "pieces": 3}, key="6")
    odradek.topic("orders").produce({"id": 7, "pieces": 3})
    ship_next_order(odradek_client_config("confluent"))
    odradek.topic("shipments").expect({"order": 7, "pieces": 3}, timeout=1)
"""

COLUMNS = 112
COLUMN_PX, LINE_PX, MARGIN_PX, FONT_PX = 7.83, 18, 16, 13
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}
BRIGHT = {str(int(code) + 60): colour for code, colour in COLOURS.items()}
PLAIN, GREY, BACKGROUND = "#e6edf3", "#8b949e", "#0d1117"
ESCAPE = re.compile(r"\x1b\[([\d;]*)m")


def main() -> None:
    lines = ["$ pytest", *_wanted(_report().splitlines())]
    PICTURE.write_text(_svg(lines))
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}: {len(lines)} lines\n")


def _report() -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "shipping.py").write_text(SERVICE)
        (Path(folder) / "test_shipping.py").write_text(TEST)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=yes", "--tb=short", "-q"]
        variables = {**os.environ, "COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT)}
        run = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if "1 failed" not in run.stdout:
        sys.exit(run.stdout + run.stderr)
    return run.stdout


def _wanted(lines: list[str]) -> Iterator[str]:
    """The failure without warnings that have nothing to do with it; what is said of it is wrapped, not cut."""
    shown = False
    for line in lines:
        text = ESCAPE.sub("", line)
        shown = (shown or text.startswith("___")) and "warnings summary" not in text
        if shown and text.startswith("E "):
            yield from (f"\x1b[31m{piece}" for piece in textwrap.wrap(text, COLUMNS, subsequent_indent="E       "))
        elif shown or text.startswith("1 failed"):
            yield line


def _svg(lines: list[str]) -> str:
    width = round(COLUMNS * COLUMN_PX + 2 * MARGIN_PX)
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    texts = [
        f'<text x="{MARGIN_PX}" y="{MARGIN_PX + (at + 0.75) * LINE_PX:g}" xml:space="preserve">{_coloured(line)}</text>'
        for at, line in enumerate(lines)
    ]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">',
            "<title>A failing test: what was expected, and what the broker holds and was asked last</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
            f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT_PX}" fill="{PLAIN}">',
            *texts,
            "</g>",
            "</svg>",
            "",
        )
    )


def _coloured(line: str) -> str:
    """A line's pieces in the colours that its escape sequences name, cut at the picture's edge."""
    left, found, style = COLUMNS, [], ""
    parts = ESCAPE.split(line)
    for at, part in enumerate(parts):
        if at % 2:
            style = _style(part, style)
            continue
        text = part if len(part) <= left else part[: left - 1] + "…"
        left -= len(text)
        found.append(f"<tspan{style}>{escape(text)}</tspan>" if style and text else escape(text))
        if left <= 0:
            break
    return "".join(found)


def _style(codes: str, before: str) -> str:
    found = before
    for code in codes.split(";"):
        if code in ("", "0", "39", "39;49;00"):
            found = ""
        elif code in COLOURS or code in BRIGHT:
            found = f' fill="{COLOURS.get(code) or BRIGHT[code]}"'
        elif code == "90":
            found = f' fill="{GREY}"'
    return found


if __name__ == "__main__":
    main()
