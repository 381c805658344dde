"""Why a consumer gets nothing, and what to do."""

from __future__ import annotations

from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.explain.explain import explain_group, explain_topic, explain_transaction
from broker.node import Node

SUBJECTS = {"group": explain_group, "topic": explain_topic, "transactional_id": explain_transaction}


async def _explain(node: Node, values: Values) -> dict[str, Any]:
    if len(values) != 1:
        what = "only one of them" if values else "one of them"
        raise ControlError(f"group, topic, transactional_id: expected {what}", parameter=next(iter(values), "group"))
    ((subject, name),) = values.items()
    findings = await SUBJECTS[subject](node, name)
    return {
        "subject": subject,
        "name": name,
        "findings": [
            {
                "severity": finding.severity.name.lower(),
                "rule": finding.rule,
                "text": finding.text,
                "advice": finding.advice,
            }
            for finding in findings
        ],
    }


ENDPOINTS = (
    Endpoint(
        "GET",
        "/explain",
        "Why nothing is read, of a group, a topic or a transactional id; the worst first, each with advice.",
        _explain,
        tuple(Parameter(subject, Kind.STRING, f"the {subject} to explain") for subject in SUBJECTS),
    ),
)
