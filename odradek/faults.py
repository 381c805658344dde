"""Faults that a test sets on a broker: wrong answers, lost requests and replies, delays, crashes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, Self

from odradek.control import ControlClient, ControlError, ControlUnavailableError

NOT_FOUND = 404

Drop = Literal["request", "reply"]
Then = Literal["crash", "power_failure"]
Phase = Literal["before", "after_append", "after_fsync", "before_reply"]


class Fault:
    """A fault that is set on a broker. As a context manager it is removed at the end of the `with` block."""

    def __init__(self, control: ControlClient, values: Mapping[str, Any]) -> None:
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

    def wait(self, hits: int = 1, timeout: float = 10.0) -> Self:
        """Wait until it has struck so often. Raises WaitTimeoutError after `timeout` seconds."""
        self._values = self._control.post(f"/faults/{self.id}/wait", hits=hits, timeout=timeout)
        return self

    async def wait_async(self, hits: int = 1, timeout: float = 10.0) -> Self:
        """As `wait`, for asyncio: other tasks run meanwhile."""
        return await asyncio.to_thread(self.wait, hits, timeout)

    def remove(self) -> None:
        """Remove it; requests that it has struck already are not spared. Harmless if it is gone."""
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


class FaultControls:
    """What `Broker` and `RemoteBroker` can do to break things."""

    @property
    def control(self) -> ControlClient:
        raise NotImplementedError

    def fault(
        self,
        api: str | int | None = None,
        *,
        version: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        listener: str | None = None,
        error: str | int | None = None,
        delay: float | None = None,
        drop: Drop | None = None,
        disconnect: bool | None = None,
        observe: bool | None = None,
        then: Then | None = None,
        phase: Phase | None = None,
        count: int | None = None,
        skip: int | None = None,
    ) -> Fault:
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
        if then is not None:
            self._expect_end()
        values = self.control.post(
            "/faults",
            api=api,
            version=version,
            topic=topic,
            partition=partition,
            group=group,
            transactional_id=transactional_id,
            client_id=client_id,
            listener=listener,
            error=error,
            delay=delay,
            drop=drop,
            disconnect=disconnect,
            observe=observe,
            then=then,
            phase=phase,
            count=count,
            skip=skip,
        )
        return Fault(self.control, values)

    def _expect_end(self) -> None:
        """The broker may end from now on, as the test asked for it: that it does is no failure of the test."""

    @property
    def faults(self) -> list[Fault]:
        """The faults that are set, in order."""
        return [Fault(self.control, values) for values in self.control.get("/faults")["faults"]]

    def clear_faults(self) -> int:
        """Remove all faults, and return how many there were."""
        removed: int = self.control.delete("/faults")["removed"]
        return removed
