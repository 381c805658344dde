"""Lengths of time as an argument: `90s`, `15m`, `2h`, `7d`; what a command gets is in milliseconds."""

from __future__ import annotations

import re
from typing import Any

import click

from odradek.cli.general import LARGEST

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION_FORMS = "500ms, 30s, 15m, 2h or 7d"


class DurationType(click.ParamType):  # type: ignore[type-arg]  # before click 8.2 it takes none
    """A length of time; the value is an int of milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        match = re.fullmatch(r"([0-9]{1,19})(ms|s|m|h|d)", value)
        found = int(match[1]) * (1 if match[2] == "ms" else SECONDS[match[2]] * 1000) if match else LARGEST + 1
        if found > LARGEST:
            self.fail(f"{value!r}: expected a length of time such as {DURATION_FORMS}", param, ctx)
        return found


DURATION = DurationType()
