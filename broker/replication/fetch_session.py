"""Incremental fetch sessions (KIP-227; Kafka's `FetchSession`): a consumer's Fetch only says what has changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kio.schema.errors import ErrorCode

from protocol.produce_fetch.fetch_response import NO_EPOCH, FetchPartitionResponse
from protocol.produce_fetch.parts import TopicKey

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

EVICTION_MS = 120_000
"""How long, in ms, a session must be unused to be replaced (Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""

MOST_IN_A_SESSION = 20_000
"""Partitions: each request looks at all of its session's, however small it is (Kafka has no such limit)."""
MOST_IN_ALL = 500_000
"""Partitions of all sessions together: some 100 MB."""

Key = tuple[TopicKey, int]
"""(topic name up to Fetch 12, topic id from 13 on; partition index)."""


@dataclass(slots=True)
class Target:
    """A partition to fetch from, and what the session last reported of it (-1: nothing yet).

    `log_start_offset` is the fetching replica's.
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


@dataclass(slots=True)
class FetchSession:
    """One session's partitions, in the order in which they will be served next."""

    id: int
    targets: dict[Key, Target]
    uses_topic_ids: bool
    created_ms: float
    used_ms: float
    epoch: int = INITIAL_EPOCH + 1

    def update(self, wanted: Iterable[Target], forgotten: Iterable[Key]) -> None:
        """Add some partitions, then drop others."""
        for target in wanted:
            known = self.targets.get(target.key)
            if known is None:
                self.targets[target.key] = target
            else:
                known.fetch_offset = target.fetch_offset
                known.max_bytes = target.max_bytes
                known.current_leader_epoch = target.current_leader_epoch
                known.last_fetched_epoch = target.last_fetched_epoch
                known.log_start_offset = target.log_start_offset
        for key in forgotten:
            self.targets.pop(key, None)

    def served(self, target: Target) -> None:
        """Move a partition that gave data behind the others, so that none is starved."""
        if self.targets.pop(target.key, None) is not None:
            self.targets[target.key] = target


class FetchContext(Protocol):
    """The partitions that one Fetch request asks for, and how its answer relates to a session."""

    @property
    def targets(self) -> Sequence[Target]: ...

    def respond(self, results: Results) -> tuple[int, int, Results]:
        """(error code, session id, the results to send)."""
        ...

    def preview(self, results: Results) -> tuple[int, int, Results]:
        """As `respond`, without creating or changing a session: for an answer that a quota holds back."""
        ...


@dataclass(slots=True)
class SessionError:
    """A request that does not fit its session, or whose session is unknown."""

    error: ErrorCode
    targets: Sequence[Target] = ()

    def respond(self, results: Results) -> tuple[int, int, Results]:
        return self.error, INVALID_SESSION_ID, []

    preview = respond


@dataclass(slots=True)
class Sessionless:
    """A full fetch outside of any session."""

    targets: Sequence[Target]

    def respond(self, results: Results) -> tuple[int, int, Results]:
        return ErrorCode.none, INVALID_SESSION_ID, results

    preview = respond


@dataclass(slots=True)
class FullFetch:
    """A full fetch that opens a session if the cache has room for it."""

    cache: FetchSessionCache
    targets: Sequence[Target]
    uses_topic_ids: bool

    def respond(self, results: Results) -> tuple[int, int, Results]:
        for target, result in results:
            target.sent_high_watermark = result.high_watermark
            target.sent_log_start_offset = result.log_start_offset
        session_id = self.cache.create({target.key: target for target, _ in results}, self.uses_topic_ids)
        return ErrorCode.none, session_id, results

    def preview(self, results: Results) -> tuple[int, int, Results]:
        return ErrorCode.none, INVALID_SESSION_ID, results


@dataclass(slots=True)
class Incremental:
    """A fetch within a session, answered with what has changed."""

    session: FetchSession
    epoch: int  # the session's epoch after this request
    targets: Sequence[Target]

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


class FetchSessionCache:
    """The sessions of a node, at most `max_sessions` (max.incremental.fetch.session.cache.slots).

    If the cache is full, a new session replaces one that is stale (unused for `EVICTION_MS`), or an old one
    (created `EVICTION_MS` ago) that holds no more partitions than the new one would.

    Of many partitions no session is made: its client names them in each request. One that grows too large ends, so
    that its client begins anew with all of them.
    """

    def __init__(self, max_sessions: int, now_ms: Callable[[], float], ids: random.Random) -> None:
        self._max = max_sessions
        self._now_ms = now_ms
        self._ids = ids
        self._sessions: dict[int, FetchSession] = {}  # in order of last use
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_of(self, session_id: int) -> list[Key]:
        """The partitions of a session; none if there is no such session."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.targets)

    @property
    def partitions(self) -> int:
        return sum(len(session.targets) for session in self._sessions.values())

    def get(self, session_id: int) -> FetchSession | None:
        """The session, which does not count as a use of it."""
        return self._sessions.get(session_id)

    def context(
        self, session_id: int, epoch: int, wanted: list[Target], forgotten: list[Key], uses_topic_ids: bool
    ) -> FetchContext:
        """The context of a Fetch request (Kafka's `FetchManager.newContext`)."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return Sessionless(wanted)
            return FullFetch(self, wanted, uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            return SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            return SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            return SessionError(ErrorCode.fetch_session_topic_id_error)
        before = len(session.targets)
        session.update(wanted, forgotten)
        size = len(session.targets)
        if size > before and (size > MOST_IN_A_SESSION or self.partitions > MOST_IN_ALL):
            del self._sessions[session_id]
            return SessionError(ErrorCode.fetch_session_id_not_found)
        if not session.targets:
            del self._sessions[session_id]
            return Sessionless(wanted)
        self._touch(session)
        session.epoch = 1 if epoch == 2**31 - 1 else epoch + 1
        return Incremental(session, session.epoch, list(session.targets.values()))

    def create(self, targets: dict[Key, Target], uses_topic_ids: bool) -> int:
        """A new session's id, or 0 if the cache has no room for it."""
        now = self._now_ms()
        if len(targets) > MOST_IN_A_SESSION:
            return INVALID_SESSION_ID
        while len(self._sessions) >= self._max or self.partitions + len(targets) > MOST_IN_ALL:
            if not self._evict(len(targets), now):
                return INVALID_SESSION_ID
        session_id = self._ids.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._ids.randrange(1, 2**31)
        self._sessions[session_id] = FetchSession(session_id, targets, uses_topic_ids, now, now)
        return session_id

    def _touch(self, session: FetchSession) -> None:
        session.used_ms = self._now_ms()
        self._sessions[session.id] = self._sessions.pop(session.id)

    def _evict(self, size: int, now: float) -> bool:
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now - victim.used_ms <= EVICTION_MS:
            old = [session for session in self._sessions.values() if now - session.created_ms > EVICTION_MS]
            if not old:
                return False
            victim = min(old, key=lambda session: (len(session.targets), session.id))
            if size < len(victim.targets):
                return False
        del self._sessions[victim.id]
        self.evictions += 1
        return True
