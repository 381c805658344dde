"""What a node explains, by the names of the rules."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control


async def found(rig: Rig, **subject: str) -> dict[str, dict[str, Any]]:
    """The findings by rule; of several by one rule, the last."""
    answer = await control(rig, "GET", "/explain", **subject)
    return {finding["rule"]: finding for finding in answer["findings"]}
