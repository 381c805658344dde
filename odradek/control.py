"""The client of a broker's control interface: HTTP and JSON, with the standard library."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0
"""How long an answer may take beyond the `timeout` that the request itself has."""


class ControlError(RuntimeError):
    """The broker refused something; the message is a sentence. `parameter` names the wrong parameter, if one is."""

    def __init__(self, message: str, *, status: int = 400, parameter: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter


class ControlUnavailableError(ControlError):
    """The control interface does not answer: the broker is not running, or was started without it."""


class WaitTimeoutError(TimeoutError, AssertionError):
    """A wait whose time is up: what was waited for, and the state at the end. It fails a test as an assertion does."""


SHOWN_BYTES = 200
"""How much is shown of an answer that is not to be understood."""

WAITED_IN_VAIN = 408
"""The status of an answer to a request whose time is up."""


class Control(ABC):
    """Sends requests to the control interface of one broker, or of several."""

    def get(self, path: str, /, **query: Any) -> Any:
        """Ask for `/control` + `path`. A value None is left out, a list becomes text with commas."""
        return self.send("GET", path, query)

    def post(self, path: str, /, **body: Any) -> Any:
        """Change something. A value None is left out."""
        return self.send("POST", path, body)

    def delete(self, path: str, /, **query: Any) -> Any:
        """Remove something."""
        return self.send("DELETE", path, query)

    @abstractmethod
    def send(self, method: str, path: str, values: Mapping[str, Any]) -> Any:
        """The answer to a request with these values, in its body if it is a POST, else in its query."""


class ControlClient(Control):
    """Sends requests to one broker; any number of threads may use it at once."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`url` is `http://host:port`. Raises ValueError if it is none."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise ValueError(f"{url!r} is no address of a control interface: expected http://HOST:PORT")
        self.url = f"http://{parts.netloc}"
        self._host, self._port = parts.hostname, parts.port
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the idle connections; the next request opens a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def send(self, method: str, path: str, values: Mapping[str, Any]) -> Any:
        timeout = ANSWER_TIMEOUT_S + float(values.get("timeout") or 0)
        given = {key: value for key, value in values.items() if value is not None}
        text = _as_json(given) if method == "POST" else None
        if given and text is None:
            path += "?" + urllib.parse.urlencode({key: _as_text(value) for key, value in given.items()})
        try:
            status, answer = self._exchange(method, f"/control{path}", text, timeout)
        except (OSError, http.client.HTTPException) as error:
            raise ControlUnavailableError(
                f"the control interface at {self.url} does not answer: {error or type(error).__name__}", status=503
            ) from None
        found = self._read(status, answer)
        if status == WAITED_IN_VAIN:
            raise WaitTimeoutError(found["error"])
        if status >= 400:
            raise ControlError(found["error"], status=status, parameter=found.get("parameter"))
        return found

    def _read(self, status: int, answer: bytes) -> Any:
        """The JSON of an answer. Raises ControlError if somebody else than the control interface has answered."""
        try:
            found = json.loads(answer)
            if status < 400 or isinstance(found["error"], str):
                return found
        except (ValueError, RecursionError, TypeError, KeyError):
            pass
        raise ControlError(
            f"{self.url} has answered with status {status} and {answer[:SHOWN_BYTES]!r}, as no control interface does: "
            "is this the address of one (odradek.control), and is there a proxy between?",
            status=status,
        )

    def _exchange(self, method: str, path: str, body: str | None, timeout: float) -> tuple[int, bytes]:
        """Status and body of the answer. A kept connection that the broker has closed is replaced."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._on(kept, method, path, body, timeout)
            except (http.client.RemoteDisconnected, ConnectionError):
                kept.close()
        connection = http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_TIMEOUT_S)
        return self._on(connection, method, path, body, timeout)

    def _on(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: str | None, timeout: float
    ) -> tuple[int, bytes]:
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(timeout)
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            answer = response.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return response.status, answer


_Owner = TypeVar("_Owner")
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def in_thread(
    method: Callable[Concatenate[_Owner, _Given], _Answer],
) -> Callable[Concatenate[_Owner, _Given], Coroutine[Any, Any, _Answer]]:
    """Make of a method that waits the same one for asyncio: it runs in a thread, and other tasks go on."""
    name = method.__name__

    @wraps(method)
    async def waits(self: _Owner, /, *given: _Given.args, **named: _Given.kwargs) -> _Answer:
        import asyncio  # only for who uses it: it is a third of what `import odradek` would take

        call: Callable[_Given, _Answer] = getattr(self, name)  # that of a class below, if it has one
        return await asyncio.to_thread(call, *given, **named)

    waits.__name__, waits.__qualname__ = f"{name}_async", f"{method.__qualname__}_async"
    waits.__doc__ = f"Do as `{name}`, without stopping the event loop."
    return waits


class Named(str):
    """A thing that a broker has under a name: a topic, a group, a transactional id. Each look asks the broker anew.

    It is a str too, the name, and clients take it as that.
    """

    _KIND: ClassVar[str]
    """Their name in the paths of the control interface."""
    _PARAMETER: ClassVar[str]
    """The parameter of the name in the methods that make one."""

    def __new__(cls, control: Callable[[], Control], name: str, *more: object) -> Self:
        if not isinstance(name, str):
            raise TypeError(f"{cls._PARAMETER} = {name!r}: expected a str")
        return super().__new__(cls, name)

    def __init__(self, control: Callable[[], Control], name: str) -> None:
        """`control` gives the client of the broker's control interface, which changes with a restart."""
        self._control = control
        self._path = f"/{self._KIND}/{segment(name)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Described(Named):
    """A group or a transactional id, which the broker describes."""

    @property
    def id(self) -> str:
        """Its name."""
        return str(self)

    def describe(self) -> dict[str, Any]:
        """Ask for all that the broker says of it; durations are seconds."""
        answer: dict[str, Any] = self._control().get(self._path)
        return answer


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return urllib.parse.quote(name, safe="")


def _as_json(body: Mapping[str, Any]) -> str:
    """Raises TypeError or ValueError that names the parameter which is nothing for JSON."""
    found = []
    for key, value in body.items():
        try:
            found.append(f"{json.dumps(key)}: {json.dumps(value)}")
        except (TypeError, ValueError) as error:
            raise type(error)(f"{key} = {value!r}: {error}") from None
        except RecursionError:
            raise ValueError(f"{key} is nested too deeply to be written as JSON") from None
    return f"{{{', '.join(found)}}}"


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
