"""Every conversation, and what Kafka answered in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.authentication import (
    conversations_handshake,
    conversations_mechanisms,
    conversations_sessions,
    conversations_tls,
)
from tests.conformance.authentication.talk import CONVERSATIONS

GOLDEN = Path(__file__).parent / "golden.json"
MODULES = (conversations_handshake, conversations_mechanisms, conversations_sessions, conversations_tls)
"""Importing them has registered theirs."""


def recorded() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())
    return found


def record(transcripts: dict[str, dict[str, Any]]) -> None:
    """Write them, one line a step."""
    parts = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(step)}: {json.dumps(answer, ensure_ascii=False)}" for step, answer in steps.items()
        )
        + "\n}"
        for name, steps in sorted(transcripts.items())
    ]
    GOLDEN.write_text("{\n" + ",\n".join(parts) + "\n}\n")


__all__ = ["CONVERSATIONS", "MODULES", "record", "recorded"]
