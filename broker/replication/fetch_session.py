"""Incremental fetch sessions (KIP-227; Kafka's `FetchSession`): a consumer's Fetch only says what has changed.

A session does not look at all of its partitions for each request either: one that had nothing to read is left alone
until it changes, which it tells those who watch it, or until the consumer names it again. All others are `due`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar, Protocol

from kio.schema.errors import ErrorCode

from protocol.produce_fetch.fetch_response import NO_EPOCH, FetchPartitionResponse
from protocol.produce_fetch.parts import TopicKey

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0

Key = tuple[TopicKey, int]
"""(topic name up to Fetch 12, topic id from 13 on; partition index)."""


@dataclass(slots=True)
class Target:
    """A partition to fetch from, and what the session last reported of it (-1: nothing yet).

    Attributes:
        log_start_offset: the fetching replica's.
        place: among the session's, in the order in which they will be served next.
        is_watched: the partition will tell when it changes.
        idle_in: the partition's leader epoch when it was left alone.
    """

    key: Key
    topic: str | None  # None: the topic id is unknown
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int = -1
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    place: int = 0
    is_watched: bool = False
    idle_in: int = -1

    def must_tell(self, result: FetchPartitionResponse, *, note: bool = True) -> bool:
        """Whether an incremental answer has to include this partition; with `note`, notes what is sent."""
        changed = (
            bool(result.records)
            or self.sent_high_watermark != result.high_watermark
            or self.sent_log_start_offset != result.log_start_offset
            or result.error_code != 0
            or result.diverging_epoch is not NO_EPOCH
            or result.preferred_read_replica >= 0
        )
        if not note:
            return changed
        # An error resets what was sent, so that the partition is included again once the error is gone; a diverging
        # epoch too: a follower that has to truncate takes over nothing else.
        is_taken = result.error_code == 0 and result.diverging_epoch is NO_EPOCH
        self.sent_high_watermark = result.high_watermark if is_taken else -1
        self.sent_log_start_offset = result.log_start_offset
        return changed


Results = list[tuple[Target, FetchPartitionResponse]]


_by_place = attrgetter("place")


@dataclass(slots=True, eq=False)
class FetchSession:
    """One session's partitions.

    Attributes:
        due: those to look at; of the others it is known that there is nothing to read or to tell.
        read_as: how the partitions were read when that was found out; it holds for no other way.
    """

    id: int
    targets: dict[Key, Target]
    uses_topic_ids: bool
    created_ms: float
    used_ms: float
    epoch: int = INITIAL_EPOCH + 1
    due: dict[Key, Target] = field(default_factory=dict)
    read_as: object = None
    _last_place: int = 0

    def update(self, wanted: Iterable[Target], forgotten: Iterable[Key]) -> None:
        """Add some partitions, then drop others."""
        for target in wanted:
            known = self.targets.get(target.key)
            if known is None:
                self.targets[target.key] = self.due[target.key] = target
                self._put_last(target)
            else:
                self.due[target.key] = known
                known.fetch_offset = target.fetch_offset
                known.max_bytes = target.max_bytes
                known.current_leader_epoch = target.current_leader_epoch
                known.last_fetched_epoch = target.last_fetched_epoch
                known.log_start_offset = target.log_start_offset
        for key in forgotten:
            self.due.pop(key, None)
            self.targets.pop(key, None)

    def served(self, target: Target) -> None:
        """Move a partition that gave data behind the others, so that none is starved."""
        if target.key in self.targets:
            self._put_last(target)

    def _put_last(self, target: Target) -> None:
        self._last_place += 1
        target.place = self._last_place

    def in_order(self, *, only_due: bool) -> list[Target]:
        """The partitions in the order in which they will be served next."""
        return sorted((self.due if only_due else self.targets).values(), key=_by_place)


class FetchContext(Protocol):
    """The partitions that one Fetch request asks for, and how its answer relates to a session."""

    @property
    def targets(self) -> Sequence[Target]: ...

    @property
    def watching(self) -> FetchSession | None:
        """The session whose other partitions need not be looked at; None if all are in `targets`."""
        ...

    def respond(self, results: Results) -> tuple[int, int, Results]:
        """(error code, session id, the results to send)."""
        ...

    def preview(self, results: Results) -> tuple[int, int, Results]:
        """As `respond`, without creating or changing a session: for an answer that a quota holds back."""
        ...


@dataclass(slots=True)
class SessionError:
    """A request that does not fit its session, or whose session is unknown."""

    watching: ClassVar[None] = None
    error: ErrorCode
    targets: Sequence[Target] = ()

    def respond(self, results: Results) -> tuple[int, int, Results]:
        return self.error, INVALID_SESSION_ID, []

    preview = respond


@dataclass(slots=True)
class Sessionless:
    """A full fetch outside of any session."""

    watching: ClassVar[None] = None
    targets: Sequence[Target]

    def respond(self, results: Results) -> tuple[int, int, Results]:
        return ErrorCode.none, INVALID_SESSION_ID, results

    preview = respond


@dataclass(slots=True)
class FullFetch:
    """A full fetch that opens a session if the cache has room for it."""

    watching: ClassVar[None] = None
    create: Callable[[dict[Key, Target]], int]
    targets: Sequence[Target]

    def respond(self, results: Results) -> tuple[int, int, Results]:
        for target, result in results:
            target.sent_high_watermark = result.high_watermark
            target.sent_log_start_offset = result.log_start_offset
        session_id = self.create({target.key: target for target, _ in results})
        return ErrorCode.none, session_id, results

    def preview(self, results: Results) -> tuple[int, int, Results]:
        return ErrorCode.none, INVALID_SESSION_ID, results


@dataclass(slots=True)
class Incremental:
    """A fetch within a session, answered with what has changed."""

    session: FetchSession
    epoch: int  # the session's epoch after this request
    targets: Sequence[Target]
    watching: FetchSession | None = None

    def respond(self, results: Results) -> tuple[int, int, Results]:
        if self.session.epoch != self.epoch:
            return ErrorCode.invalid_fetch_session_epoch, self.session.id, []
        changed = []
        for target, result in results:
            if target.must_tell(result):
                changed.append((target, result))
                if result.records:
                    self.session.served(target)
        return ErrorCode.none, self.session.id, changed

    def preview(self, results: Results) -> tuple[int, int, Results]:
        if self.session.epoch != self.epoch:
            return self.respond(results)
        changed = [(target, result) for target, result in results if target.must_tell(result, note=False)]
        return ErrorCode.none, self.session.id, changed
