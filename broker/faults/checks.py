"""Makes a fault of what a test asks for, and refuses one that could never match. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from broker.faults.facts import GROUP_APIS, PARTITION_APIS, TOPIC_APIS, TRANSACTIONAL_ID_APIS
from broker.faults.names import API_KEYS, API_NAMES, ERROR_CODES, find_api, find_error, nearest
from broker.faults.spec import Drop, FaultSpec, Phase, Then
from metadata import topic_names
from protocol.api.table import API_BY_NAME, API_TABLE

GROUP_WRITERS = frozenset(
    (
        "offset_commit",
        "txn_offset_commit",
        "offset_delete",
        "delete_groups",
        "join_group",
        "sync_group",
        "leave_group",
        "consumer_group_heartbeat",
        "streams_group_heartbeat",
    )
)
TRANSACTION_WRITERS = frozenset(("init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn"))
WRITERS = frozenset(("produce", *GROUP_WRITERS, *TRANSACTION_WRITERS))
"""APIs whose requests append to a log of which this is known: the topic's, or that of a coordinator."""

AUTHENTICATION = frozenset(("sasl_handshake", "sasl_authenticate"))
"""APIs that a connection answers itself before its client is known: no fault sees their requests."""

SELECTORS: dict[str, Collection[str]] = {
    "topic": TOPIC_APIS,
    "partition": PARTITION_APIS,
    "group": GROUP_APIS,
    "transactional_id": TRANSACTIONAL_ID_APIS,
}
"""The APIs whose requests have what a selector names."""

ACTIONS = ("error", "delay", "drop", "disconnect", "observe", "then")

Given = Mapping[str, Any]
"""The values by name, of the right types; one that was not given is absent."""


class FaultError(ValueError):
    """A fault that cannot be set: `parameter` is what is wrong with it."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


def fault_spec(given: Given, listeners: Collection[str]) -> FaultSpec:
    """The fault; `listeners` are the names of those that the broker has. Raises FaultError."""
    error = None if "error" not in given else _error(given["error"])
    drop = None if "drop" not in given else Drop(given["drop"])
    then = None if "then" not in given else Then(given["then"])
    _check_actions(given, error, drop)
    phase = Phase(given["phase"]) if "phase" in given else _usual_phase(drop)
    if drop is Drop.REQUEST and phase is not Phase.BEFORE:
        raise FaultError(
            f"phase = {phase.value!r}: by then the request was handled; with drop = 'request', expected before", "phase"
        )
    if phase is Phase.BEFORE_FSYNC and (then is None or any(given.get(name) for name in ACTIONS if name != "then")):
        raise FaultError("phase = 'before_fsync': the broker can only end there; expected with then, alone", "phase")
    if "listener" in given and given["listener"] not in listeners:
        raise FaultError(
            f"listener = {given['listener']!r}: expected one of {', '.join(sorted(listeners))}", "listener"
        )
    if "topic" in given and (reason := topic_names.invalid_reason(given["topic"])):
        raise FaultError(f"topic = {given['topic']!r}: {reason}", "topic")
    return FaultSpec(
        apis=_apis(given, phase),
        any_api="api" not in given,
        version=given.get("version"),
        topic=given.get("topic"),
        partition=given.get("partition"),
        group=given.get("group"),
        transactional_id=given.get("transactional_id"),
        client_id=given.get("client_id"),
        listener=given.get("listener"),
        error=error,
        delay_ms=given.get("delay", 0) * 1000,
        drop=drop,
        disconnect=given.get("disconnect", False),
        observe=given.get("observe", False),
        then=then,
        phase=phase,
        skip=given.get("skip", 0),
        count=given.get("count"),
    )


def phases_of(api: str) -> tuple[Phase, ...]:
    """The phases that requests of an API have."""
    return tuple(Phase) if api in WRITERS else (Phase.BEFORE, Phase.BEFORE_REPLY)


def _usual_phase(drop: Drop | None) -> Phase:
    return Phase.BEFORE_REPLY if drop is Drop.REPLY else Phase.BEFORE


def _check_actions(given: Given, error: ErrorCode | None, drop: Drop | None) -> None:
    if not any(given.get(name) for name in ACTIONS):
        raise FaultError(f"the fault does nothing: expected one of {', '.join(ACTIONS)}", "error")
    ends = {"error": error, "drop": drop, "disconnect": given.get("disconnect")}
    chosen = [name for name, value in ends.items() if value]
    if len(chosen) > 1:
        raise FaultError(f"{chosen[1]}: a fault has only one of {', '.join(ends)}, and {chosen[0]} is set", chosen[1])
    if given.get("observe") and chosen:
        raise FaultError(f"observe: expected alone, or with delay or then, and {chosen[0]} is set", "observe")


def _error(given: str | int) -> ErrorCode:
    code = find_error(given)
    if code is None:
        near = nearest(given, ERROR_CODES)
        raise FaultError(
            f"error = {given!r} is no error of Kafka's: expected a name or number, such as {near}", "error"
        )
    return code


def _apis(given: Given, phase: Phase) -> tuple[str, ...]:
    """The APIs whose requests can match. Raises FaultError if there are none."""
    if "api" not in given:
        return _any_of(given, phase)
    api = find_api(given["api"])
    if api is None:
        near = nearest(given["api"], API_KEYS)
        raise FaultError(f"api = {given['api']!r} is no API here: expected a name or number, such as {near}", "api")
    shown = API_NAMES[api.name]
    if api.name in AUTHENTICATION:
        raise FaultError(
            f"api = {shown!r}: faults see requests only once the client is known; give it a wrong password", "api"
        )
    for selector, suitable in SELECTORS.items():
        if selector in given and api.name not in suitable:
            raise FaultError(
                f"{selector}: {shown} requests have none, so the fault would never match; expected with one of "
                f"{_shown(suitable)}",
                selector,
            )
    version = given.get("version")
    if version is not None and not api.serves(version):
        raise FaultError(f"version = {version}: {shown} is served in {api.lowest} to {api.highest}", "version")
    if phase not in phases_of(api.name):
        accepted = ", ".join(phase.value for phase in phases_of(api.name))
        raise FaultError(
            f"phase = {phase.value!r}: {shown} requests append nothing to a log; expected one of {accepted}", "phase"
        )
    return (api.name,)


def _any_of(given: Given, phase: Phase) -> tuple[str, ...]:
    """All the APIs whose requests have what the selectors name."""
    found = [api.name for api in API_TABLE if phase in phases_of(api.name) and api.name not in AUTHENTICATION]
    for selector, suitable in SELECTORS.items():
        if selector in given:
            found = [name for name in found if name in suitable]
            if not found:
                raise FaultError(f"{selector}: no API has requests with all that the selectors name", selector)
    version = given.get("version")
    if version is not None:
        raise FaultError(f"version = {version}: expected with an api", "version")
    return tuple(found)


def _shown(names: Collection[str]) -> str:
    return ", ".join(API_NAMES[api] for api in API_BY_NAME if api in names)
