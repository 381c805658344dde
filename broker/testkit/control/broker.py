"""The broker itself: what it is, its time, the cluster as it knows it, leaders to move, and connections to cut.

Sessions, timeouts, expiries, retention and timestamps follow the broker's time, connections do not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from broker.membership.controller_service import ControllerService
from broker.node import Node
from broker.peers.cuts import Address
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values, time_of
from timing.adjustable_clock import AdjustableClock

ENDPOINTS = Endpoints()

UNITS_MS = {"seconds": 1_000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
_UNITS = tuple(
    Parameter(unit, Kind.NUMBER, f"So many {unit}; several units are added up.", least=0) for unit in UNITS_MS
)
TOPIC = Parameter("topic", Kind.STRING, "the name of a topic")
BROKER = Parameter("broker", Kind.INTEGER, "the id of the broker", required=True, least=0)


@ENDPOINTS("GET /status", "The broker's identity, listeners and health.")
def _status(node: Node, _values: Values) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "cluster_id": node.cluster.id,
        "pid": os.getpid(),
        "listeners": {name: f"{listener.host}:{listener.port}" for name, listener in node.bound.advertised.items()},
        "not_ready": node.state.not_ready,
        "problems": node.state.problems(),
    }


LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, beyond which no date can be shown."""
QUIET_TURNS = 10
"""So many turns of the loop without a job or a thread at work mean that what has begun is at its end."""
POLL_MS = 1
LONGEST_WORK_MS = 10_000
"""How long one instant may take; a thread that hangs must not keep time from going on."""


async def settle(node: Node) -> None:
    """Return when what has begun in the node, requests of clients aside, is at its end."""
    machine = node.clock.machine
    until_ms = machine.monotonic_ms() + LONGEST_WORK_MS
    quiet = 0
    while quiet < QUIET_TURNS:
        if not node.is_busy or machine.monotonic_ms() >= until_ms:
            quiet += 1
            await asyncio.sleep(0)
        else:
            quiet = 0
            await machine.sleep(POLL_MS)


def clock_of(node: Node) -> AdjustableClock:
    """The node's clock. Raises ControlError if it is one that nobody moves."""
    if not isinstance(node.clock, AdjustableClock):
        raise ControlError("this broker's clock cannot be moved", status=409)
    return node.clock


@ENDPOINTS("GET /clock", "The broker's time: seconds since 1970, as text, and whether it stands still.")
def _state(node: Node, _values: Values) -> dict[str, Any]:
    clock = clock_of(node)
    now = clock.wall_ms() / 1000
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return {"now": now, "time": text, "frozen": clock.frozen, "ahead": clock.ahead_ms / 1000}


@ENDPOINTS("POST /clock/advance", "Move time forward; answered when all that is due has run.", *_UNITS)
async def _advance(node: Node, values: Values) -> dict[str, Any]:
    clock = clock_of(node)
    if not values:
        raise ControlError("expected seconds, minutes, hours or days, or several of them", parameter="seconds")
    ms = sum(values[unit] * factor for unit, factor in UNITS_MS.items() if unit in values)
    if clock.wall_ms() + ms > LATEST_MS:
        unit = next(iter(values))
        raise ControlError(f"{unit} = {values[unit]!r}: expected to stay before the year 10000", parameter=unit)
    await clock.advance(ms, partial(settle, node))
    return _state(node, {})


@ENDPOINTS(
    "POST /clock/set",
    "Set the time of day. Forward, all that is due runs; back, only timestamps change.",
    Parameter("time", Kind.STRING, "The time in ISO 8601, in UTC unless it says otherwise."),
    Parameter("epoch", Kind.NUMBER, "The time in seconds since 1970.", least=0),
)
async def _set(node: Node, values: Values) -> dict[str, Any]:
    clock = clock_of(node)
    if len(values) != 1:
        raise ControlError("expected either time or epoch", parameter="time")
    name, value = next(iter(values.items()))
    wall_ms = value * 1000 if name == "epoch" else _wall_time(value).timestamp() * 1000
    if not 0 <= wall_ms <= LATEST_MS:
        raise ControlError(f"{name} = {value!r}: expected a time from 1970 to 9999", parameter=name)
    await clock.set_wall(wall_ms, partial(settle, node))
    return _state(node, {})


def _wall_time(text: str) -> datetime:
    expected = "expected a time in ISO 8601, as 2026-01-31T12:00:00Z"
    return time_of(text, ControlError(f"time = {text!r}: {expected}", parameter="time"))


def _then_state(act: Callable[[AdjustableClock], Awaitable[object]]) -> Callable[[Node, Values], Awaitable[Json]]:
    """What does something with the clock, and answers how it is then."""

    async def answer(node: Node, _values: Values) -> Json:
        await act(clock_of(node))
        return _state(node, {})

    return answer


Json = dict[str, Any]


@ENDPOINTS("GET /cluster", "Brokers and partitions, as this node knows them.", TOPIC)
def _describe(node: Node, values: Values) -> Json:
    image = node.cluster.cache.image
    wanted = values.get("topic")
    return {
        "cluster": node.cluster.id,
        "controller": node.cluster.controller_service is not None,
        "offset": image.offset,
        "brokers": [
            {"id": broker.id, "fenced": broker.fenced, "in_controlled_shutdown": broker.in_controlled_shutdown}
            for broker in sorted(image.cluster.brokers.values(), key=lambda broker: broker.id)
        ],
        "partitions": [
            {
                "topic": topic.name,
                "partition": index,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
            }
            for topic in image.topics.sorted()
            if wanted in (None, topic.name)
            for index, partition in topic.in_order()
        ],
    }


@ENDPOINTS(
    "GET /cluster/coordinator",
    "The broker that coordinates a group, or a transactional id; -1 if there is none.",
    Parameter("group", Kind.STRING, "the id of a group"),
    Parameter("transactional_id", Kind.STRING, "a transactional id"),
)
def _coordinator(node: Node, values: Values) -> Json:
    if len(values) != 1:
        raise ControlError("expected group or transactional_id", parameter="group")
    image, coordinators = node.cluster.cache.image, node.coordinators
    if "group" in values:
        return {"broker": coordinators.groups.leader_for(image, values["group"])}
    return {"broker": coordinators.transactions.leader_for(image, values["transactional_id"])}


@ENDPOINTS(
    "POST /cluster/leader",
    "Lets a broker lead a partition of which it is a replica in sync; on the controller alone.",
    Parameter("topic", Kind.STRING, "the name of a topic", required=True),
    Parameter("partition", Kind.INTEGER, "the index of a partition", required=True, least=0),
    BROKER,
)
async def _move_leader(node: Node, values: Values) -> None:
    await _service(node).move_leader(values["topic"], values["partition"], values["broker"])


@ENDPOINTS(
    "POST /cluster/expire",
    "Ends the session of a broker now, as if it had been silent for that long; on the controller alone.",
    BROKER,
)
async def _expire(node: Node, values: Values) -> None:
    await _service(node).end_session(values["broker"])


def _service(node: Node) -> ControllerService:
    if node.cluster.controller_service is None:
        raise ControlError("this node is not the controller of other nodes: ask the node that is", status=409)
    return node.cluster.controller_service


@ENDPOINTS(
    "POST /network/cut",
    "Cuts the connections that this node opens to other nodes, and lets it open none.",
    Parameter("addresses", Kind.ARRAY, "host:port of each listener that is cut; no others are", required=True),
)
def _cut(node: Node, values: Values) -> None:
    node.state.cuts.cut([_address(text) for text in values["addresses"]])


@ENDPOINTS("DELETE /network/cut", "Lets this node connect to all others again.")
def _heal(node: Node, _values: Values) -> None:
    node.state.cuts.cut(())


def _address(text: object) -> Address:
    host, _, port = str(text).rpartition(":")
    if not host or not port.isdecimal():
        raise ControlError(f"addresses: {text!r} is none; expected host:port", parameter="addresses")
    return host.strip("[]"), int(port)


ENDPOINTS("POST /clock/freeze", "Let time stand still.")(_then_state(AdjustableClock.freeze))
ENDPOINTS("POST /clock/resume", "Let time go on from where it stands.")(_then_state(AdjustableClock.resume))
ENDPOINTS("POST /clock/reset", "Go on with the machine's time of day.")(_then_state(AdjustableClock.reset))
