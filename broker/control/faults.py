"""Faults: set, list, wait for, and remove them."""

from __future__ import annotations

from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.faults.crash import crash
from broker.faults.fault import Fault
from broker.faults.faults import FaultError, Faults
from broker.faults.injection import Around
from broker.faults.names import API_NAMES, error_name
from broker.faults.spec import Drop, Phase, Then
from broker.node import Node

DEFAULT_TIMEOUT_S = 10.0

ID = Parameter("id", Kind.STRING, "the fault's id", required=True)


def faults_of(node: Node) -> Faults:
    """What sets faults on this node; none is set yet."""
    local = node.local
    around = Around(local.clock.machine, crash, lambda: local.random.randbytes(4).hex())
    return Faults(node.dispatcher, around, node.bound.advertised)


def _set(node: Node, values: Values) -> dict[str, Any]:
    try:
        return described(_faults(node).set(values))
    except FaultError as error:
        raise ControlError(str(error), parameter=error.parameter) from error


def _list(node: Node, _values: Values) -> dict[str, Any]:
    return {"faults": [described(fault) for fault in _faults(node)]}


def _get(node: Node, values: Values) -> dict[str, Any]:
    fault = _fault(node, values)
    return {**described(fault), "requests": list(fault.requests)}


async def _wait(node: Node, values: Values) -> dict[str, Any]:
    fault, hits = _fault(node, values), values.get("hits", 1)
    timeout = values.get("timeout", DEFAULT_TIMEOUT_S)
    if not await _faults(node).wait(fault, hits, timeout * 1000):
        known = described(fault)
        raise ControlError(
            f"waited {timeout:g} s for {hits} hits of fault {fault.id}, and it has {fault.hits}: {known['what']}",
            status=408,
        )
    return _get(node, values)


def _remove(node: Node, values: Values) -> None:
    _faults(node).remove(_fault(node, values))


def _clear(node: Node, _values: Values) -> dict[str, Any]:
    return {"removed": _faults(node).clear()}


def described(fault: Fault) -> dict[str, Any]:
    """The fault as JSON values, without its requests; what it does not select or do is absent."""
    spec = fault.spec
    given = {
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
    shown = {name: value for name, value in given.items() if value is not None}
    what = ", ".join(f"{name}={value}" for name, value in shown.items())
    return {"id": fault.id, **shown, "hits": fault.hits, "active": fault.active, "what": what}


def _faults(node: Node) -> Faults:
    assert node.faults is not None, "the control interface makes them"
    return node.faults


def _fault(node: Node, values: Values) -> Fault:
    found = _faults(node).get(values["id"])
    if found is None:
        known = ", ".join(fault.id for fault in _faults(node)) or "there are none"
        raise ControlError(f"id = {values['id']}: there is no such fault; set are: {known}", parameter="id", status=404)
    return found


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

ENDPOINTS = (
    Endpoint("POST", "/faults", "Set a fault.", _set, SELECTORS + ACTIONS),
    Endpoint("GET", "/faults", "The faults that are set.", _list),
    Endpoint("DELETE", "/faults", "Remove all faults.", _clear),
    Endpoint("GET", "/faults/{id}", "A fault with the last requests that it struck, decoded.", _get, (ID,)),
    Endpoint("DELETE", "/faults/{id}", "Remove a fault.", _remove, (ID,)),
    Endpoint(
        "POST",
        "/faults/{id}/wait",
        "Wait until a fault has struck.",
        _wait,
        (
            ID,
            Parameter("hits", Kind.INTEGER, "how often, 1 if absent", least=0),
            Parameter("timeout", Kind.NUMBER, f"how many seconds, {DEFAULT_TIMEOUT_S:g} if absent", least=0),
        ),
    ),
)
