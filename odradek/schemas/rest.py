"""Confluent's REST interface of a registry: its paths, and the levels and modes that there are."""

from __future__ import annotations

from urllib.parse import quote

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")


def subject_path(subject: str, *more: object) -> str:
    """`/subjects/SUBJECT`, or what is below it."""
    return "/".join(["/subjects", *(quote(str(part), safe="") for part in (subject, *more))])


def setting_path(kind: str, subject: str | None) -> str:
    """`config` is the level, `mode` the mode: of a subject, or (None) of all."""
    return f"/{kind}" if subject is None else f"/{kind}/{quote(subject, safe='')}"
