"""The incremental fetch sessions of a node, and who of them watches which partition."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

from kio.schema.errors import ErrorCode

from broker.replication.fetch_session import (
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    FetchContext,
    FetchSession,
    FullFetch,
    Incremental,
    Key,
    SessionError,
    Sessionless,
    Target,
)
from protocol.topic_partition import PartitionKey

FINAL_EPOCH = -1

EVICTION_MS = 120_000
"""How long, in ms, a session must be unused to be replaced (Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""

MOST_IN_A_SESSION = 20_000
"""Partitions: a request may have to look at all of its session's, however small it is (Kafka has no such limit)."""
MOST_IN_ALL = 500_000
"""Partitions of all sessions together: some 200 MB."""


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
        self._changed: Callable[[FetchSession], object] | None = None
        self.evictions = 0
        self.watchers: dict[PartitionKey, list[tuple[FetchSession, Target]]] = {}
        """The sessions that are to be told when a partition changes."""

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

    # -- partitions that change

    def hear(self, changed: Callable[[FetchSession], object]) -> None:
        """Rely on `check_and_complete` from now on, and pass on which session has something to look at."""
        self._changed = changed

    def watch(self, session: FetchSession, target: Target, partition: PartitionKey, leader_epoch: int) -> None:
        """Leave the partition alone until it changes: there is nothing to read."""
        if self._sessions.get(session.id) is not session or session.due.pop(target.key, None) is not target:
            return
        target.idle_in = leader_epoch
        if not target.is_watched:
            target.is_watched = True
            self.watchers.setdefault(partition, []).append((session, target))

    def check_and_complete(self, partition: PartitionKey) -> None:
        """The partition, which is one of `watchers`, has changed."""
        for session, target in self.watchers.pop(partition):
            target.is_watched = False
            session.due[target.key] = target
            if self._changed is not None:
                self._changed(session)

    def _unwatch(self, targets: Iterable[Target]) -> None:
        for target in targets:
            if target.is_watched and target.topic is not None:
                target.is_watched = False
                key = (target.topic, target.key[1])
                left = [watcher for watcher in self.watchers[key] if watcher[1] is not target]
                if left:
                    self.watchers[key] = left
                else:
                    del self.watchers[key]

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._unwatch(session.targets.values())

    # -- requests

    def context(
        self,
        session_id: int,
        epoch: int,
        wanted: list[Target],
        forgotten: list[Key],
        uses_topic_ids: bool,
        read_as: object = None,
    ) -> FetchContext:
        """The context of a Fetch request (Kafka's `FetchManager.newContext`).

        `read_as`, if it is not None, says all that the request's reads depend on, besides partition and session:
        read in the same way as before, partitions that did not change since are left out.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._end(session_id)
            if epoch == FINAL_EPOCH:
                return Sessionless(wanted)
            return FullFetch(partial(self._create, uses_topic_ids), wanted)
        session = self._sessions.get(session_id)
        if session is None:
            return SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            return SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            return SessionError(ErrorCode.fetch_session_topic_id_error)
        before = len(session.targets)
        self._unwatch(session.targets[key] for key in forgotten if key in session.targets)
        session.update(wanted, forgotten)
        size = len(session.targets)
        if size > before and (size > MOST_IN_A_SESSION or self.partitions > MOST_IN_ALL):
            self._end(session_id)
            return SessionError(ErrorCode.fetch_session_id_not_found)
        if not session.targets:
            self._end(session_id)
            return Sessionless(wanted)
        self._touch(session)
        session.epoch = 1 if epoch == 2**31 - 1 else epoch + 1
        if self._changed is None:
            read_as = None
        if session.read_as != read_as:
            session.read_as, session.due = read_as, dict(session.targets)
        targets = session.in_order(only_due=read_as is not None)
        return Incremental(session, session.epoch, targets, None if read_as is None else session)

    def _create(self, uses_topic_ids: bool, targets: dict[Key, Target]) -> int:
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
        session = self._sessions[session_id] = FetchSession(session_id, {}, uses_topic_ids, now, now)
        session.update(targets.values(), ())
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
        self._end(victim.id)
        self.evictions += 1
        return True
