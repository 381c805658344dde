"""How many partitions a client may create and delete (KIP-599; Kafka's `ControllerMutationQuotaManager`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from broker.rate import TokenBucket
from protocol.errors import ThrottlingQuotaExceeded


class MutationQuota:
    """One request's view of its client's quota.

    A strict one refuses changes while tokens are owed, though a single change may go into debt. A lenient one, for
    versions of the APIs that do not know the error, only returns the time to wait.
    """

    def __init__(
        self, limited: tuple[TokenBucket, float] | None, strict: bool, monotonic_ms: Callable[[], float]
    ) -> None:
        self._limited = limited
        self._strict = strict
        self._monotonic_ms = monotonic_ms
        self._charged: set[str] = set()
        self._end_ms = 0

    def charge(self, topic: str, partitions: int) -> None:
        """Count a topic's partitions, once for the request. Raises ThrottlingQuotaExceeded."""
        if self._limited is None or topic in self._charged:
            return
        bucket, quota = self._limited
        now_ms = int(self._monotonic_ms())
        throttle_ms = bucket.throttle_ms(quota, now_ms)
        if not self._strict:
            bucket.take(partitions, quota, now_ms)
            throttle_ms = bucket.throttle_ms(quota, now_ms)
        if throttle_ms:
            self._end_ms = now_ms + throttle_ms
            if self._strict:
                raise ThrottlingQuotaExceeded
        elif self._strict:
            bucket.take(partitions, quota, now_ms)
        self._charged.add(topic)

    @property
    def throttle_time(self) -> timedelta:
        """The rest of the time that the client has to wait."""
        return timedelta(milliseconds=max(0, self._end_ms - int(self._monotonic_ms())))
