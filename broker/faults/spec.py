"""A fault as a test asks for it: selectors, actions and phase; and what it has struck so far.

One that could never match is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kio.schema.errors import ErrorCode

from metadata import topic_names
from protocol.api.names import API_KEYS, ERROR_CODES, find_api, find_error, nearest
from protocol.api.row import Api
from protocol.api.shape import selectors_of
from protocol.api.table import API_TABLE


class Phase(StrEnum):
    """When a fault strikes while its request is handled."""

    BEFORE = "before"
    AFTER_APPEND = "after_append"
    BEFORE_FSYNC = "before_fsync"
    AFTER_FSYNC = "after_fsync"
    BEFORE_REPLY = "before_reply"


class Drop(StrEnum):
    """The message that is lost on the way. As in TCP, nothing that follows it on its connection arrives either."""

    REQUEST = "request"
    REPLY = "reply"


class Then(StrEnum):
    """The end of the broker that follows the action.

    A crash is a SIGKILL. A power failure also loses what was not synced to the device.
    """

    CRASH = "crash"
    POWER_FAILURE = "power_failure"


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """The action on requests, and the selectors of these requests; a selector that is None matches everything.

    Attributes:
        apis: the names of the APIs (`protocol.api.table`) whose requests may match.
        any_api: the test named none: these are all whose requests can match the other selectors.
        delay_ms: how long to wait before the other actions.
        skip: how many matching requests are left alone first.
        count: how many requests it strikes then; None: all.
    """

    apis: tuple[str, ...]
    any_api: bool = False
    version: int | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    listener: str | None = None
    error: ErrorCode | None = None
    delay_ms: float = 0
    drop: Drop | None = None
    disconnect: bool = False
    observe: bool = False
    then: Then | None = None
    phase: Phase = Phase.BEFORE
    skip: int = 0
    count: int | None = None

    @property
    def selects_partitions(self) -> bool:
        """Whether it may match some partitions of a request and not others."""
        return self.topic is not None or self.partition is not None

    @property
    def only_observes(self) -> bool:
        return self.observe and not self.delay_ms and self.then is None


SELECTORS = ("topic", "partition", "group", "transactional_id")
ACTIONS = ("error", "delay", "drop", "disconnect", "observe", "then")
TAKEN_AS_GIVEN = (*SELECTORS, "version", "client_id", "listener", "disconnect", "observe", "skip", "count")

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
        error=error,
        delay_ms=given.get("delay", 0) * 1000,
        drop=drop,
        then=then,
        phase=phase,
        **{name: given[name] for name in TAKEN_AS_GIVEN if name in given},
    )


def phases_of(api: Api) -> tuple[Phase, ...]:
    """The phases that requests of an API have."""
    return tuple(Phase) if api.writes else (Phase.BEFORE, Phase.BEFORE_REPLY)


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
    shown = api.kafka_name
    if api.before_login:
        raise FaultError(
            f"api = {shown!r}: faults see requests only once the client is known; give it a wrong password", "api"
        )
    for selector in SELECTORS:
        if selector in given and selector not in selectors_of(api):
            suitable = ", ".join(each.kafka_name for each in API_TABLE if selector in selectors_of(each))
            raise FaultError(
                f"{selector}: {shown} requests have none, so the fault would never match; expected with one of "
                f"{suitable}",
                selector,
            )
    version = given.get("version")
    if version is not None and not api.serves(version):
        raise FaultError(f"version = {version}: {shown} is served in {api.lowest} to {api.highest}", "version")
    if phase not in phases_of(api):
        accepted = ", ".join(phase.value for phase in phases_of(api))
        raise FaultError(
            f"phase = {phase.value!r}: {shown} requests append nothing to a log; expected one of {accepted}", "phase"
        )
    return (api.name,)


def _any_of(given: Given, phase: Phase) -> tuple[str, ...]:
    """All APIs; that a request has what the selectors name is seen when it comes."""
    version = given.get("version")
    if version is not None:
        raise FaultError(f"version = {version}: expected with an api", "version")
    return tuple(api.name for api in API_TABLE if phase in phases_of(api) and not api.before_login)


MOST_REQUESTS = 1000
"""How many of the last requests are kept."""


@dataclass(eq=False, slots=True, kw_only=True)
class Counted:
    """Something that is set, and counts what it strikes.

    Attributes:
        id: tells it from all others, also from those of earlier starts.
        hits: how often it has struck.
        removed: it strikes no more.
    """

    id: str
    hits: int = 0
    removed: bool = False
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """Whether it may strike again."""
        return not self.removed

    def hit(self) -> None:
        """Count a hit."""
        self.hits += 1
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` at each hit from now on; returns the function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


@dataclass(eq=False, slots=True, kw_only=True)
class Fault(Counted):
    """A fault of requests with its state; a hit is a request that it struck, in its phase.

    Attributes:
        matched: requests that matched and were not skipped; they count for `count` from then on.
        requests: the last requests that it struck, decoded, as JSON values.
    """

    spec: FaultSpec
    skipped: int = 0
    matched: int = 0
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_REQUESTS))

    @property
    def active(self) -> bool:
        return not self.removed and (self.spec.count is None or self.matched < self.spec.count)

    def claim(self) -> bool:
        """Count one more matching request; return whether the fault is to strike it."""
        if not self.active:
            return False
        if self.skipped < self.spec.skip:
            self.skipped += 1
            return False
        self.matched += 1
        return True

    def strike(self, request: dict[str, Any]) -> None:
        """Note a request that it strikes now."""
        self.requests.append(request)
        self.hit()
