"""Share sessions: which partitions a member fetches from (KIP-932; Kafka's `ShareSession`, `ShareSessionCache`).

A session belongs to a member of a group, whatever connection it comes by, and ends with the connection that began it,
with a final request, or when another one is begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from uuid import UUID

from protocol.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound

FULL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

MOST_IN_A_SESSION = 20_000
"""Partitions: each request looks at all of its session's, however small it is (Kafka has no such limit)."""
MOST_IN_ALL = 500_000
"""Partitions of all sessions together: some 100 MB."""

TopicPartition = tuple[UUID, int]
SessionKey = tuple[str, str]
"""Group id and member id."""


class ShareSession:
    """The partitions of a session, in the order in which they are read next; `epoch` is that of the next request.

    `new` are those that no answer has had yet. A partition keeps the name that its topic had when it was added, None
    if there was no such topic.
    """

    def __init__(self, key: SessionKey, connection: object) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.new: set[TopicPartition] = set()
        self._partitions: dict[TopicPartition, str | None] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._partitions)

    def count_new(self, partitions: Mapping[TopicPartition, str | None]) -> int:
        """How many of these are not in the session."""
        return len(partitions.keys() - self._partitions.keys())

    def __len__(self) -> int:
        return len(self._partitions)

    def topic_of(self, partition: TopicPartition) -> str | None:
        """The name of the partition's topic, which may be deleted by now; None if it was unknown."""
        return self._partitions.get(partition)

    def change(self, added: Mapping[TopicPartition, str | None], forgotten: Iterable[TopicPartition]) -> None:
        """Add partitions, with the names of their topics, then take some out."""
        for partition, topic in added.items():
            if partition not in self._partitions:
                self.new.add(partition)
                self._partitions[partition] = topic
        for partition in forgotten:
            self._partitions.pop(partition, None)
            self.new.discard(partition)

    def rotate(self) -> None:
        """Put the partition that came first at the end, so that all have their turn."""
        if len(self._partitions) > 1:
            first = next(iter(self._partitions))
            self._partitions[first] = self._partitions.pop(first)


class ShareSessions:
    """The sessions of this node, at most `most` of them. `changed` is called when one has begun or ended."""

    def __init__(self, most: int, changed: Callable[[], None]) -> None:
        self._most = most
        self._changed = changed
        self._by_key: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def open(self, key: SessionKey, connection: object) -> ShareSession:
        """Begin a session; one that the member has is replaced. Raises ShareSessionLimitReached."""
        if key not in self._by_key and len(self._by_key) >= self._most:
            raise ShareSessionLimitReached
        session = self._by_key[key] = ShareSession(key, connection)
        self._changed()
        return session

    def use(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session for a request with this epoch, which the next request must exceed by one.

        Raises ShareSessionNotFound, InvalidShareSessionEpoch.
        """
        session = self._by_key.get(key)
        if session is None:
            raise ShareSessionNotFound
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return session

    def change(
        self, session: ShareSession, added: Mapping[TopicPartition, str | None], forgotten: Iterable[TopicPartition]
    ) -> None:
        """See `ShareSession.change`. Raises ShareSessionLimitReached, and changes nothing, for too many partitions."""
        more = session.count_new(added)
        if more and (
            len(session) + more > MOST_IN_A_SESSION or sum(map(len, self._by_key.values())) + more > MOST_IN_ALL
        ):
            raise ShareSessionLimitReached
        session.change(added, forgotten)

    def close(self, key: SessionKey) -> ShareSession:
        """End a session. Raises ShareSessionNotFound."""
        session = self._by_key.pop(key, None)
        if session is None:
            raise ShareSessionNotFound
        self._changed()
        return session

    def close_of(self, connection: object) -> list[ShareSession]:
        """End the sessions that a connection began."""
        ended = [session for session in self._by_key.values() if session.connection is connection]
        for session in ended:
            del self._by_key[session.key]
            self._changed()
        return ended

    def has(self, session: ShareSession) -> bool:
        """Whether the session has neither ended nor been replaced."""
        return self._by_key.get(session.key) is session

    def partitions_of(self, key: SessionKey) -> list[TopicPartition]:
        """The partitions of a session; none if there is no such session."""
        return [*self._by_key.get(key, ())]

    def members_of(self, group_id: str) -> frozenset[str]:
        """The members of a group that have a session here."""
        return frozenset(member_id for group, member_id in self._by_key if group == group_id)

    def has_group(self, group_id: str) -> bool:
        return any(key[0] == group_id for key in self._by_key)
