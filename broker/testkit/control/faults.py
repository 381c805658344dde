"""Faults: set, list, wait for, and remove them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from broker.faults.connections import ConnectionFault, Direction
from broker.faults.connections import ConnectionFaultKind as ConnectionKind
from broker.faults.crash import Crash
from broker.faults.faults import AnyFault, Faults
from broker.faults.injection import Around
from broker.faults.registry_calls import RegistryFault
from broker.faults.spec import Drop, Fault, FaultError, FaultSpec, Phase, Then
from broker.node import Node
from broker.testkit.control.endpoint import (
    DEFAULT_TIMEOUT_S,
    TIMEOUT,
    Changes,
    ControlError,
    Endpoints,
    Kind,
    Parameter,
    Values,
    wait_until,
)
from protocol.api.names import API_NAMES, error_name

ENDPOINTS = Endpoints()

NOW = "now"
LOST, KEPT = "lost", "kept"
ID = Parameter("id", Kind.STRING, "the fault's id", required=True)
SELECTORS = (
    Parameter("api", Kind.STRING_OR_INTEGER, "the API by Kafka's name, such as Produce, or its number; absent: any"),
    Parameter("version", Kind.INTEGER, "the version of the request", least=0),
    Parameter("topic", Kind.STRING, "a topic that the request names"),
    Parameter("partition", Kind.INTEGER, "a partition that the request names", least=0),
    Parameter("group", Kind.STRING, "the group"),
    Parameter("transactional_id", Kind.STRING, "the transactional id"),
    Parameter("client_id", Kind.STRING, "the client id in the request's header"),
    Parameter("listener", Kind.STRING, "the name of the listener that the client is connected to"),
)
ACTIONS = (
    Parameter("error", Kind.STRING_OR_INTEGER, "answer with this error, by Kafka's name or number"),
    Parameter("delay", Kind.NUMBER, "wait so many seconds first", least=0),
    Parameter("drop", Kind.STRING, "lose the request or the reply", choices=tuple(Drop)),
    Parameter("disconnect", Kind.BOOLEAN, "close the connection"),
    Parameter("observe", Kind.BOOLEAN, "only count the request, and keep it"),
    Parameter("then", Kind.STRING, "end the broker after that", choices=tuple(Then)),
    Parameter("phase", Kind.STRING, "when to do it: before unless the reply is dropped", choices=tuple(Phase)),
    Parameter("skip", Kind.INTEGER, "how many matching requests to leave alone first", least=0),
    Parameter("count", Kind.INTEGER, "how many requests to strike then; absent: all", least=1),
)
CONNECTION = (
    Parameter("client_id", Kind.STRING, "only connections of this client"),
    Parameter("listener", Kind.STRING, "only connections to the listener of this name"),
)
DIRECTION = Parameter("direction", Kind.STRING, "what is held up; absent: both", choices=tuple(Direction))


ANSWER_MS = 20.0
"""How long the answer may take to get out before a crash."""


T = TypeVar("T")
Json = dict[str, Any]


def faults_of(node: Node) -> Faults:
    """What sets faults on this node; none is set yet. Delays are real time, whatever a test does to the clock."""
    local = node.local
    crash = Crash(node.replicas.logs.services.fs, local.config.log_dirs)
    around = Around(local.clock.machine, crash.now, crash.at_sync, lambda: local.random.randbytes(4).hex())
    return Faults(node.dispatcher, node.server, around, list(node.bound.advertised))


@ENDPOINTS("POST /faults", "Set a fault.", *SELECTORS, *ACTIONS)
def _set(node: Node, values: Values) -> Json:
    return described(refusing(lambda: the_faults(node).set(values)))


@ENDPOINTS("GET /faults", "The faults that are set.")
def _list(node: Node, _values: Values) -> Json:
    return {"faults": [described(fault) for fault in the_faults(node)]}


@ENDPOINTS(
    "GET /faults/{id}",
    "A fault, also one of the last that were removed, with the last requests that it struck, decoded.",
    ID,
)
def _get(node: Node, values: Values) -> Json:
    fault = _fault(node, values)
    requests = list(fault.requests) if isinstance(fault, Fault) else []
    return {**described(fault), "requests": requests}


@ENDPOINTS(
    "POST /faults/{id}/wait",
    "Wait until a fault has struck.",
    ID,
    Parameter("n", Kind.INTEGER, "how often, 1 if absent", least=0),
    TIMEOUT,
)
async def _wait(node: Node, values: Values) -> Json:
    fault, n, timeout = _fault(node, values), values.get("n", 1), values.get("timeout", DEFAULT_TIMEOUT_S)

    async def look(changes: Changes) -> int:
        changes.follow(fault.id, fault.listen)
        return fault.hits

    def failed(found: int | None) -> str:
        return f"waited {timeout:g} s for {n} hits of the fault {described(fault)['what']}, and there were {found}"

    await wait_until(look, lambda found: found >= n, failed, timeout)
    return described(fault)


@ENDPOINTS("DELETE /faults/{id}", "Remove a fault.", ID)
def _remove(node: Node, values: Values) -> None:
    the_faults(node).remove(_fault(node, values))


@ENDPOINTS("DELETE /faults", "Remove all faults.")
def _clear(node: Node, _values: Values) -> Json:
    return {"removed": the_faults(node).clear()}


@ENDPOINTS(
    "POST /crash",
    "End the broker as a power failure does, or as a SIGKILL.",
    Parameter("at", Kind.STRING, "when: in which phase of a request, now if absent", choices=(NOW, *Phase)),
    Parameter("unsynced", Kind.STRING, "what becomes of unsynced bytes, lost if absent", choices=(LOST, KEPT)),
    *SELECTORS,
)
def _crash(node: Node, values: Values) -> Json:
    """End the process now, or in a phase of a request that matches."""
    values = dict(values)
    at, then = values.pop("at", NOW), Then.CRASH if values.pop("unsynced", LOST) == KEPT else Then.POWER_FAILURE
    if at != NOW:
        if not {"api", "group", "transactional_id"} & values.keys():
            values["api"] = "Produce"
        try:
            return described(the_faults(node).set({**values, "phase": at, "then": then, "count": 1}))
        except FaultError as error:
            raise ControlError(str(error).replace("phase = ", "at = "), parameter=_of_crash(error.parameter)) from error
    if values:
        name = next(iter(values))
        raise ControlError(f"{name}: expected with one of {', '.join(Phase)} for at", parameter=name)
    around = the_faults(node).around
    around.clock.call_later(ANSWER_MS, lambda: around.crash(then))
    return {}


def _of_crash(parameter: str) -> str:
    """The name that a parameter of faults has for a crash."""
    return "at" if parameter == "phase" else parameter


@ENDPOINTS("POST /disconnect", "Reset connections.", *CONNECTION)
def _disconnect(node: Node, values: Values) -> Json:
    return {"disconnected": refusing(lambda: the_faults(node).connections.disconnect(values))}


def _break(kind: ConnectionKind) -> Callable[[Node, Values], Json]:
    return lambda node, values: described(refusing(lambda: the_faults(node).connections.set(kind, values)))


def described(fault: AnyFault) -> Json:
    """The fault as JSON values, without its requests; what it does not select or do is absent."""
    if isinstance(fault, RegistryFault):
        given = fault.described
    else:
        given = _request_fault(fault.spec) if isinstance(fault, Fault) else _connection_fault(fault)
    shown = {name: value for name, value in given.items() if value is not None}
    what = ", ".join(f"{name}={value}" for name, value in shown.items())
    return {"id": fault.id, **shown, "hits": fault.hits, "active": fault.active, "what": what}


def _request_fault(spec: FaultSpec) -> Json:
    return {
        "kind": "fault",
        "api": None if spec.any_api else API_NAMES[spec.apis[0]],
        "version": spec.version,
        "topic": spec.topic,
        "partition": spec.partition,
        "group": spec.group,
        "transactional_id": spec.transactional_id,
        "client_id": spec.client_id,
        "listener": spec.listener,
        "error": None if spec.error is None else error_name(spec.error),
        "delay": spec.delay_ms / 1000 or None,
        "drop": spec.drop,
        "disconnect": spec.disconnect or None,
        "observe": spec.observe or None,
        "then": spec.then,
        "phase": spec.phase,
        "skip": spec.skip or None,
        "count": spec.count,
    }


def _connection_fault(fault: ConnectionFault) -> Json:
    is_throttle = fault.kind is ConnectionKind.THROTTLE
    return {
        "kind": fault.kind,
        "client_id": fault.client_id,
        "listener": fault.listener,
        "bytes_per_second": fault.bytes_per_second if is_throttle else None,
        "direction": None if fault.kind is ConnectionKind.REFUSE else fault.direction,
    }


def refusing(act: Callable[[], T]) -> T:
    """The result of `act`; a FaultError becomes a ControlError."""
    try:
        return act()
    except FaultError as error:
        raise ControlError(str(error), parameter=error.parameter) from error


def the_faults(node: Node) -> Faults:
    assert node.faults is not None, "the control interface makes them"
    return node.faults


def _fault(node: Node, values: Values) -> AnyFault:
    found = the_faults(node).get(values["id"])
    if found is None:
        known = ", ".join(fault.id for fault in the_faults(node)) or "none"
        raise ControlError(f"id = {values['id']}: there is no such fault; set are: {known}", parameter="id", status=404)
    return found


ENDPOINTS("POST /refuse_connections", "Reset each new connection.", CONNECTION[1])(_break(ConnectionKind.REFUSE))
ENDPOINTS(
    "POST /throttle",
    "Make connections slow.",
    *CONNECTION,
    Parameter("bytes_per_second", Kind.NUMBER, "what passes in each direction", required=True, least=1),
    DIRECTION,
)(_break(ConnectionKind.THROTTLE))
ENDPOINTS("POST /stall", "Let nothing pass on connections, and leave them open.", *CONNECTION, DIRECTION)(
    _break(ConnectionKind.STALL)
)
