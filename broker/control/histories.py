"""Histories: begin, read, check and end the recording of what clients sent and were sent."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import Any

from broker.control.budget import Budget, SpentError
from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.control.history_events import DIGEST_WORK, EVENT_BYTES, Event, events_of, log_event, name_of
from broker.control.history_recorder import histories_of
from broker.control.topic_reader import MOST
from broker.node import Node

KEPT_BYTES = 512 << 20
"""Of the events of a history: it is checked as a whole, or not at all."""
WORK = 8 << 30

HISTORY = Parameter("history", Kind.STRING, "the history's name, which its beginning answered", required=True)


def _begin(node: Node, _values: Values) -> dict[str, Any]:
    return {"history": histories_of(node).begin()}


async def _events(node: Node, values: Values) -> bytes:
    """What happened since the beginning, and what the partitions have now that were written or read."""
    budget = _new_budget()
    found = await _all_events(node, values["history"], budget)
    return await budget.run(node, lambda: json.dumps({"events": found}).encode())


def _new_budget() -> Budget:
    return Budget(MOST, work=WORK, kept=KEPT_BYTES)


async def _all_events(node: Node, name: str, budget: Budget) -> list[Event]:
    try:
        return await _events_within(node, name, budget)
    except SpentError:
        raise ControlError(
            f"history {name} is too long to be shown: a history must have less than some {KEPT_BYTES // EVENT_BYTES} "
            f"records and {WORK // DIGEST_WORK} bytes of content; end it, and begin one for a part of the test",
            status=413,
        ) from None


async def _events_within(node: Node, name: str, budget: Budget) -> list[Event]:
    recorder = histories_of(node).recorders.get(name)
    if recorder is None:
        raise ControlError(f"there is no history {name!r}", parameter="history", status=404)
    recorder.note_deleted()
    if recorder.failed is not None:
        raise ControlError(f"history {name} has a hole, as it could not be written: {recorder.failed}", status=500)
    found: list[Event] = await budget.run(node, partial(events_of, recorder.path, name_of(node), budget))
    ends: dict[str, dict[str, int]] = {}
    for event in found:
        if event["type"] in ("began", "restored"):
            ends = dict(event["ends"])
        elif event["type"] == "deleted":
            ends.pop(event["topic"], None)
    places = {(event["topic"], event["partition"]) for event in found if event["type"] in ("sent", "read")}
    for topic, index in sorted(places):
        content = await log_event(node, topic, index, ends.get(topic, {}).get(str(index), 0), budget)
        if content is not None:
            found.append(content)
    return found


async def _problems(node: Node, values: Values) -> dict[str, Any]:
    """The anomalies of a history so far."""
    from odradek.history_check import find_problems

    budget = _new_budget()
    events = await _all_events(node, values["history"], budget)
    problems = await budget.run(node, partial(find_problems, events))
    return {"problems": [asdict(problem) for problem in problems]}


def _end(node: Node, values: Values) -> None:
    histories = histories_of(node)
    if values["history"] not in histories.recorders:
        raise ControlError(f"there is no history {values['history']!r}", parameter="history", status=404)
    histories.end(values["history"])


ENDPOINTS = (
    Endpoint("POST", "/histories", "Begin to record what clients send and are sent.", _begin),
    Endpoint(
        "GET", "/histories/{history}", "What was recorded, as events, and what the logs have now.", _events, (HISTORY,)
    ),
    Endpoint(
        "GET",
        "/histories/{history}/problems",
        "Acknowledged records that are lost, doubled or reordered, and aborted ones that were read.",
        _problems,
        (HISTORY,),
    ),
    Endpoint("DELETE", "/histories/{history}", "End a history.", _end, (HISTORY,)),
)
