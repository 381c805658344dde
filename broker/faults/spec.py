"""A fault as it was asked for: selectors, actions and phase."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kio.schema.errors import ErrorCode


class Phase(StrEnum):
    """When a fault strikes while its request is handled."""

    BEFORE = "before"
    AFTER_APPEND = "after_append"
    BEFORE_FSYNC = "before_fsync"
    AFTER_FSYNC = "after_fsync"
    BEFORE_REPLY = "before_reply"


class Drop(StrEnum):
    """What is lost on the way. As in TCP, nothing that follows it on its connection arrives either."""

    REQUEST = "request"
    REPLY = "reply"


class Then(StrEnum):
    """What happens to the broker after the action.

    A crash is a SIGKILL. A power failure also loses what was not synced to the device.
    """

    CRASH = "crash"
    POWER_FAILURE = "power_failure"


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """What to do with which requests; a selector that is None matches everything.

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
