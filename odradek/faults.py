"""Faults that a test sets on a broker: wrong answers, lost requests and replies, delays, crashes."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack, overload

from odradek.control import Control, ControlError, ControlUnavailableError, WaitTimeoutError, in_thread

NOT_FOUND = 404

CRASH_TIMEOUT_S = 10.0
LOOK_S = 0.005
"""How often it is looked whether a process that is to end has ended."""

Drop = Literal["request", "reply"]
Then = Literal["crash", "power_failure"]
Phase = Literal["before", "after_append", "before_fsync", "after_fsync", "before_reply"]
Unsynced = Literal["lost", "kept"]
RemoteStorage = Literal["slow", "error", "lost", "corrupt", "fine"]
Direction = Literal["both", "requests", "replies"]


class Selectors(TypedDict, total=False):
    """Which requests of an API: what is not given, or None, matches everything."""

    version: int | None
    topic: str | None
    partition: int | None
    group: str | None
    transactional_id: str | None
    client_id: str | None
    listener: str | None


class FaultParameters(Selectors, total=False):
    """What is done to them, when, and to how many: see `FaultControls.fault`."""

    error: str | int | None
    delay: float | None
    drop: Drop | None
    disconnect: bool | None
    observe: bool | None
    then: Then | None
    phase: Phase | None
    count: int | None
    skip: int | None


class Fault:
    """A fault that is set on a broker. As a context manager it is removed at the end of the `with` block."""

    def __init__(self, control: Control, values: Mapping[str, Any]) -> None:
        self._control = control
        self._values = dict(values)
        self.id: str = self._values["id"]

    @property
    def hits(self) -> int:
        """How often it has struck so far."""
        hits: int = self._get()["hits"]
        return hits

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests that it has struck, decoded, the last thousand at most.

        Each has `api`, `version`, `client_id`, `correlation_id`, `listener`, `client_host` and `client_port`, and the
        fields of the request by Kafka's names: `topics`, `group_id`. Durations are seconds.
        """
        requests: list[dict[str, Any]] = self._get()["requests"]
        return requests

    @property
    def active(self) -> bool:
        """Whether it may strike again: False once it has struck `count` requests."""
        active: bool = self._get()["active"]
        return active

    def wait(self, n: int = 1, timeout: float = 5.0) -> Self:
        """Wait until it has struck `n` times. Raises WaitTimeoutError after `timeout` seconds."""
        self._values = self._control.post(f"/faults/{self.id}/wait", n=n, timeout=timeout)
        return self

    wait_async = in_thread(wait)

    def remove(self) -> None:
        """Remove it; requests that it has struck already are not spared, and `hits` and `requests` stay.

        Harmless if it is gone.
        """
        try:
            self._control.delete(f"/faults/{self.id}")
        except ControlError as error:
            if error.status != NOT_FOUND:
                raise

    def _get(self) -> dict[str, Any]:
        self._values = self._control.get(f"/faults/{self.id}")
        return self._values

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ControlUnavailableError):  # no fault outlives a broker that crashed or was stopped
            self.remove()

    def __repr__(self) -> str:
        return f"<Fault {self.id}: {self._values['what']}>"


class Crash(Fault):
    """A fault that ends the broker: it has struck once the broker has ended. The list of its requests is lost then."""

    def __init__(self, control: Control, values: Mapping[str, Any], has_ended: Callable[[], bool]) -> None:
        super().__init__(control, values)
        self._has_ended = has_ended

    @property
    def hits(self) -> int:
        """1 once the broker has ended."""
        return int(self._has_ended())

    @property
    def active(self) -> bool:
        """Whether it may strike: False once the broker has ended."""
        return not self._has_ended() and super().active

    def wait(self, n: int = 1, timeout: float = 5.0) -> Self:
        """Wait until the broker has ended. Raises WaitTimeoutError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with contextlib.suppress(ControlUnavailableError):
            super().wait(n, timeout)
        _wait_for_end(self._has_ended, deadline)
        return self


class FaultControls(ABC):
    """The ways in which `Broker` and `RemoteBroker` break things."""

    @property
    @abstractmethod
    def control(self) -> Control:
        """The client of the control interface. Raises RuntimeError if there is none."""

    def _end_of_process(self) -> Callable[[], bool]:
        """A function that tells whether the present process has ended, even when another one has taken its place."""
        control = self.control
        pid = control.get("/status")["pid"]

        def has_ended() -> bool:
            try:
                return bool(control.get("/status")["pid"] != pid)
            except ControlUnavailableError:
                return True

        return has_ended

    def fault(self, api: str | int | None = None, **given: Unpack[FaultParameters]) -> Fault:
        """Set a fault: do something to the requests that match.

        Which requests: those of `api` (Kafka's name, such as "Produce", or its number; None: of any), in `version`,
        about `topic`, `partition`, `group` or `transactional_id`, from `client_id`, on `listener`. A selector that is
        not given matches everything. `skip` requests are left alone first, then `count` are struck (None: all).

        What is done to them: `error` answers with an error (Kafka's name or number), and if `topic` or `partition` is
        given, only for what matches; `delay` waits so many seconds first; `drop` loses the request, or its reply, and
        as in TCP what follows on that connection too; `disconnect` closes the connection; `observe` only counts and
        keeps the request. `then="crash"` kills the broker after that, and "power_failure" also loses what was not
        synced.

        `phase` is when: "before" the request is handled, "after_append" of what it writes, "after_fsync" of that (the
        broker syncs it, even where it would not), "before_reply".

        Raises ControlError for a fault that could never match; its `parameter` says what is wrong.
        """
        has_ended = self._end_of_process() if given.get("then") is not None else None
        values = self.control.post("/faults", api=api, **given)
        if has_ended is None:
            return Fault(self.control, values)
        self._expect_end()
        return Crash(self.control, values, has_ended)

    def _expect_end(self) -> None:  # noqa: B027 - of a process elsewhere nothing is to be done
        """Note that the test has asked for the broker's end: then that is no failure of the test."""

    @property
    def faults(self) -> list[Fault]:
        """The faults that are set, in order."""
        return [Fault(self.control, values) for values in self.control.get("/faults")["faults"]]

    def remote_storage(self, kind: RemoteStorage, *, seconds: float = 1) -> None:
        """Let the store of tiered topics be so from now on; what was read from it before is forgotten.

        "slow": each call takes `seconds`; "error": each fails; "lost": what is read is missing; "corrupt": it is
        damaged; "fine": there is no fault any more.
        """
        self.control.post("/remote_storage", kind=kind, seconds=seconds)

    def clear_faults(self) -> int:
        """Remove all faults, and return how many there were."""
        removed: int = self.control.delete("/faults")["removed"]
        return removed

    @overload
    def crash(self, at: Literal["now"] = "now", *, unsynced: Unsynced = "lost") -> None: ...

    @overload
    def crash(
        self,
        at: Phase,
        *,
        api: str | int | None = None,
        unsynced: Unsynced = "lost",
        **selectors: Unpack[Selectors],
    ) -> Crash: ...

    def crash(self, at: str = "now", *, unsynced: Unsynced = "lost", **selectors: Any) -> Crash | None:
        """Have the broker end as a power failure would: bytes and file names that were not synced are lost.

        With `unsynced="kept"` it is killed instead, and the files stay as they are. At once by default; then the call
        returns when the broker has ended. Otherwise in a phase of the next request that matches (see `fault`), a
        Produce request unless `api`, `group` or `transactional_id` says otherwise; `wait` of what is returned waits for
        that.

        `at="before_fsync"` is before what the request wrote is synced: if its answer waits for the sync, as with
        flush.messages=1, the client gets none; if not, it gets one, and what was acknowledged is lost.

        Start the broker again with `restart`.
        """
        has_ended = self._end_of_process()
        if at == "now":
            for name in selectors:
                raise TypeError(f"{name}: expected with at other than 'now'")
            self.control.post("/crash", unsynced=unsynced)
            self._expect_end()
            _wait_for_end(has_ended, time.monotonic() + CRASH_TIMEOUT_S)
            return None
        values = self.control.post("/crash", at=at, unsynced=unsynced, **selectors)
        self._expect_end()
        return Crash(self.control, values, has_ended)

    def disconnect(self, *, client_id: str | None = None, listener: str | None = None) -> int:
        """Reset the connections of a client, or on a listener, or all; return how many there were."""
        disconnected: int = self.control.post("/disconnect", client_id=client_id, listener=listener)["disconnected"]
        return disconnected

    def refuse_connections(self, *, listener: str | None = None) -> Fault:
        """Reset each new connection, until the fault is removed; those that there are stay. `hits` counts them."""
        return Fault(self.control, self.control.post("/refuse_connections", listener=listener))

    def throttle(
        self,
        *,
        bytes_per_second: float,
        client_id: str | None = None,
        listener: str | None = None,
        direction: Direction = "both",
    ) -> Fault:
        """Make the connections of a client slow, those that there are and new ones, until the fault is removed.

        So many bytes a second pass in each direction: requests to the broker, replies from it. `hits` counts the
        connections.
        """
        values = self.control.post(
            "/throttle", bytes_per_second=bytes_per_second, client_id=client_id, listener=listener, direction=direction
        )
        return Fault(self.control, values)

    def stall(
        self, *, client_id: str | None = None, listener: str | None = None, direction: Direction = "both"
    ) -> Fault:
        """Let nothing pass on the connections of a client, and leave them open, as a network that lost its way.

        When the fault is removed, what was held up passes. A new connection is stalled once its first request has named
        the client.
        """
        return Fault(
            self.control, self.control.post("/stall", client_id=client_id, listener=listener, direction=direction)
        )


def _wait_for_end(has_ended: Callable[[], bool], deadline: float) -> None:
    while not has_ended():
        if time.monotonic() > deadline:
            raise WaitTimeoutError("waited for the broker to end, and it is still running")
        time.sleep(LOOK_S)
