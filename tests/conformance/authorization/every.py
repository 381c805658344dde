"""The answers of the whole matrix, and what Kafka answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.authorization import questions_admin, questions_shares
from tests.conformance.authorization.outcome import outcome
from tests.conformance.authorization.questions import QUESTIONS
from tests.conformance.authorization.world import USERS, World

MODULES = (questions_admin, questions_shares)
"""Importing them has registered their questions behind the others."""

GOLDEN = Path(__file__).parent / "golden.json"

OWN = ("-gone-", "-idgone-", "-ggone-", "-ogone-", "-auto-", "-new-", "acl-", "someone-")
"""What only one user asks about: left out of lists of everything, and renamed where it is asked about."""

Answers = dict[str, dict[str, Any]]
"""By question, then by user."""


def ask_all(world: World, user: str) -> dict[str, Any]:
    """All answers to a user."""
    wire = world.connect(user)
    found = {}
    for title, asked in QUESTIONS.items():
        answer = outcome(wire.call(asked.api, asked.version, asked.body(world, user)), world.ids)
        if answer in ("closed", "silence"):
            wire.close()
            wire = world.connect(user)
        found[title] = _comparable(answer, title, user)
    wire.close()
    return found


def _comparable(answer: Any, title: str, user: str) -> Any:
    if not isinstance(answer, list):
        return answer
    if title.startswith(("list_", "describe_delegation_token")):
        answer = {line for line in answer if not any(own in line for own in OWN)}
    return sorted(line.replace(f"-{user}", "-<user>") for line in answer)


def matrix(world: World) -> Answers:
    """Every question as every user."""
    by_user = {user: ask_all(world, user) for user in USERS}
    return {title: {user: by_user[user][title] for user in USERS} for title in QUESTIONS}


def recorded() -> Answers:
    found: dict[str, list[list[Any]]] = json.loads(GOLDEN.read_text())
    return {
        title: {user: answer for users, answer in answers for user in users.split()} for title, answers in found.items()
    }


def record(answers: Answers) -> None:
    """Write them, a line for all users who got the same."""
    parts = []
    for title, by_user in answers.items():
        alike: dict[str, list[str]] = {}
        for user, answer in by_user.items():
            alike.setdefault(json.dumps(answer), []).append(user)
        lines = ",\n".join(f'  ["{" ".join(users)}", {answer}]' for answer, users in alike.items())
        parts.append(f"{json.dumps(title)}: [\n{lines}\n]")
    GOLDEN.write_text("{\n" + ",\n".join(parts) + "\n}\n")


__all__ = ["MODULES", "QUESTIONS", "Answers", "matrix", "record", "recorded"]
