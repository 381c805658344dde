"""An endpoint of the control interface: what it takes, the function that answers it, and waits until something is so.

A wait is told of changes, and lasts at most as long as the caller says. That time is the caller's, real time of the
event loop: a test that waits five seconds does so whatever it does to the broker's clock. It is the only time in the
node that is not the clock's.
"""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from broker.nearest import did_you_mean
from broker.node import Node
from broker.peers.leaders import RETRY_MS, NoAnswerError
from protocol.errors import CoordinatorLoadInProgress
from timing.clock import Clock


class Kind(enum.StrEnum):
    """The type of a parameter, named as in JSON Schema."""

    STRING = "string"
    INTEGER = "integer"
    STRING_OR_INTEGER = "string or integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ARRAY = "array"
    OBJECT = "object"


_PYTHON_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.STRING: (str,),
    Kind.INTEGER: (int,),
    Kind.STRING_OR_INTEGER: (str, int),
    Kind.NUMBER: (int, float),
    Kind.BOOLEAN: (bool,),
    Kind.ARRAY: (list,),
    Kind.OBJECT: (dict,),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that an endpoint takes: from the path, the query or the JSON body.

    Attributes:
        choices: the accepted values, if there are only a few.
        least: the smallest accepted number.
    """

    name: str
    kind: Kind
    doc: str
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None


Values = dict[str, Any]
"""The checked parameters by name; one that was not given is absent."""


class ControlError(Exception):
    """A request that cannot be done; `status` is that of the HTTP response.

    `parameter` is the name of the parameter that is wrong, if one is.
    """

    def __init__(self, message: str, *, parameter: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.status = status


Answer = TypeVar("Answer", bound=Callable[[Node, Values], Any])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method and a path under `/control/`, such as `/groups/{group}`.

    `answer` returns what becomes the JSON of the response, None for `{}`, or the JSON itself, as bytes. It raises
    ControlError, or KafkaError.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Node, Values], Any | Awaitable[Any]]
    parameters: tuple[Parameter, ...] = ()

    @property
    def only_looks(self) -> bool:
        """Whether it changes nothing, so that it may end with its client: reads, and waits (POST with a body)."""
        return self.method == "GET" or self.path.endswith(("/wait", "/exactly-once"))

    def check(self, given: Mapping[str, Any], texts: Mapping[str, str]) -> Values:
        """The values of a request: `given` has those of the body, `texts` those of path and query, as text.

        Raises ControlError for an unknown parameter, a missing one, and a value of the wrong type.
        """
        by_name = {parameter.name: parameter for parameter in self.parameters}
        for name in (*given, *texts):
            if name not in by_name:
                raise ControlError(_unknown(name, tuple(by_name)), parameter=name)
        values = {name: _checked(by_name[name], value) for name, value in given.items() if value is not None}
        values |= {name: _checked(by_name[name], _from_text(by_name[name], text)) for name, text in texts.items()}
        for parameter in self.parameters:
            if parameter.required and parameter.name not in values:
                raise ControlError(f"{parameter.name} is missing: {parameter.doc}", parameter=parameter.name)
        return values


class Endpoints(list[Endpoint]):
    """The endpoints of a subject, each declared where the function is that answers it."""

    def __call__(self, line: str, summary: str, *parameters: Parameter) -> Callable[[Answer], Answer]:
        """Declare one: `@ENDPOINTS("GET /groups/{group}", "A group.", GROUP)`."""
        method, path = line.split()

        def declare(answer: Answer) -> Answer:
            self.append(Endpoint(method, path, summary, answer, parameters))
            return answer

        return declare


def _unknown(name: str, known: tuple[str, ...]) -> str:
    accepted = f"accepted are {', '.join(known)}" if known else "there are none here"
    return f"{name} is no parameter{did_you_mean(name, known) or ': ' + accepted}"


def _checked(parameter: Parameter, value: Any) -> Any:
    name, kind = parameter.name, parameter.kind
    is_wrong_bool = isinstance(value, bool) and kind is not Kind.BOOLEAN
    if is_wrong_bool or not isinstance(value, _PYTHON_TYPES[kind]) or not _is_finite(value):
        raise ControlError(f"{name} = {value!r}: expected {_described(kind)}", parameter=name)
    if parameter.choices and value not in parameter.choices:
        expected = ", ".join(parameter.choices)
        raise ControlError(f"{name} = {value!r}: expected one of {expected}", parameter=name)
    if parameter.least is not None and isinstance(value, int | float) and value < parameter.least:
        raise ControlError(f"{name} = {value!r}: expected at least {parameter.least:g}", parameter=name)
    return value


def _is_finite(value: Any) -> bool:
    """False for a number that arithmetic cannot use; JSON in Python has NaN and Infinity, and integers of any size."""
    try:
        return not isinstance(value, int | float) or math.isfinite(value)
    except OverflowError:
        return False


def _from_text(parameter: Parameter, text: str) -> Any:
    """The value of a text in a path or a query."""
    try:
        match parameter.kind:
            case Kind.INTEGER:
                return int(text)
            case Kind.NUMBER:
                return float(text)
            case Kind.BOOLEAN:
                return {"true": True, "false": False}[text.lower()]
            case Kind.ARRAY:
                return text.split(",")
            case _:
                return text
    except (ValueError, KeyError):
        expected = _described(parameter.kind)
        raise ControlError(f"{parameter.name} = {text!r}: expected {expected}", parameter=parameter.name) from None


def time_of(text: str, error: ControlError) -> datetime:
    """The time of a text in ISO 8601, in UTC unless it says otherwise; raises the error if it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise error from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _described(kind: Kind) -> str:
    match kind:
        case Kind.INTEGER:
            return "a whole number"
        case Kind.STRING_OR_INTEGER:
            return "a name or a number"
        case Kind.NUMBER:
            return "a number"
        case Kind.BOOLEAN:
            return "true or false"
        case Kind.ARRAY:
            return "a list"
        case Kind.OBJECT:
            return "an object"
        case _:
            return "a text"


T = TypeVar("T")

DEFAULT_TIMEOUT_S = 5.0
TIMED_OUT = 408
"""The status of a response after a wait in vain; its error says what was waited for, and how things are."""

TIMEOUT = Parameter("timeout", Kind.NUMBER, f"the longest wait, in seconds (default {DEFAULT_TIMEOUT_S:g})", least=0)

Listen = Callable[[Callable[[], None]], Callable[[], None]]
"""Has a function called at each change from now on; returns the function that ends this."""


class Changes:
    """What a wait listens to: each source is followed once, until the wait is over."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._ends: dict[Hashable, Callable[[], None]] = {}

    def follow(self, source: Hashable, listen: Listen) -> None:
        """Look again whenever the source changes, to which `listen` listens."""
        if source not in self._ends:
            self._ends[source] = listen(self._happened.set)

    def follow_once(self, source: Hashable, listen: Listen) -> None:
        """Look again at the next change alone: the source is followed anew at each look."""
        if source in self._ends:
            self._ends.pop(source)()
        self.follow(source, listen)

    def look_again(self, clock: Clock, delay_ms: float) -> None:
        """Look again after a while, though no source may have changed."""
        self.follow_once("time", lambda changed: clock.call_later(delay_ms, changed).cancel)

    def end(self) -> None:
        for end in self._ends.values():
            end()

    def clear(self) -> None:
        self._happened.clear()

    async def next(self, timeout_s: float) -> None:
        """Return at the next change, or when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._happened.wait()
        except TimeoutError:
            return


async def until(look: Callable[[Changes], Awaitable[bool]], timeout_s: float) -> bool:
    """Call `look` now and after each change of the sources that it names, until it is true; False if time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    changes = Changes()
    try:
        while True:
            changes.clear()
            if await look(changes):
                return True
            left_s = deadline - loop.time()
            if left_s <= 0:
                return False
            await changes.next(left_s)
    finally:
        changes.end()


async def wait_until(
    look: Callable[[Changes], Awaitable[T | None]],
    reached: Callable[[T], bool],
    failed: Callable[[T | None], str],
    timeout_s: float,
) -> T:
    """Return what `look` gives, the present state or None while nobody tells it, once it is what was waited for.

    Raises ControlError (408) with `failed` of the last state when the time is over.
    """
    seen: T | None = None

    async def is_reached(changes: Changes) -> bool:
        nonlocal seen
        seen = await look(changes)
        return seen is not None and reached(seen)

    if not await until(is_reached, timeout_s) or seen is None:
        raise ControlError(failed(seen), status=TIMED_OUT)
    return seen


async def look_at_coordinator(
    node: Node,
    changes: Changes,
    sources: Callable[[], Iterable[Any]],
    read: Callable[[], Awaitable[T]],
    is_elsewhere: Callable[[T], bool],
) -> T | None:
    """Return what `read` gives; None while the coordinator does not tell it, which is asked again after a while.

    `sources` are what this node has that tells of changes. Nobody tells it of what changes elsewhere.
    """
    async with node.changing:  # a snapshot that is restored brings another coordinator
        for source in sources():
            changes.follow(source, source.listen)
        try:
            seen = await read()
        except (CoordinatorLoadInProgress, NoAnswerError):
            changes.look_again(node.clock.machine, RETRY_MS)
            return None
    if is_elsewhere(seen):
        changes.look_again(node.clock.machine, RETRY_MS)
    return seen
