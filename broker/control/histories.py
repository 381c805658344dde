"""Histories: begin, read, check and end the recording of what clients sent and were sent."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.control.history_events import Event, events_of, log_event, name_of
from broker.control.history_recorder import histories_of
from broker.node import Node

HISTORY = Parameter("history", Kind.STRING, "the history's name, which its beginning answered", required=True)


def _begin(node: Node, _values: Values) -> dict[str, Any]:
    return {"history": histories_of(node).begin()}


async def _events(node: Node, values: Values) -> dict[str, Any]:
    """What happened since the beginning, and what the partitions have now that were written or read."""
    found = await _all_events(node, values["history"])
    return {"events": found}


async def _all_events(node: Node, name: str) -> list[Event]:
    recorder = histories_of(node).recorders.get(name)
    if recorder is None:
        raise ControlError(f"there is no history {name!r}", parameter="history", status=404)
    recorder.note_deleted()
    if recorder.failed is not None:
        raise ControlError(f"history {name} has a hole, as it could not be written: {recorder.failed}", status=500)
    found: list[Event] = await node.base.seams.workers.call(partial(events_of, recorder.path, name_of(node)))
    ends: dict[str, dict[str, int]] = {}
    for event in found:
        if event["type"] in ("began", "restored"):
            ends = dict(event["ends"])
        elif event["type"] == "deleted":
            ends.pop(event["topic"], None)
    places = {(event["topic"], event["partition"]) for event in found if event["type"] in ("sent", "read")}
    for topic, index in sorted(places):
        content = await log_event(node, topic, index, ends.get(topic, {}).get(str(index), 0))
        if content is not None:
            found.append(content)
    return found


async def _problems(node: Node, values: Values) -> dict[str, Any]:
    """The anomalies of a history so far."""
    from odradek.history_check import find_problems

    events = await _all_events(node, values["history"])
    problems = await node.base.seams.workers.call(partial(find_problems, events))
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
