"""A follower's side of an incremental fetch session (KIP-227; Kafka's `FetchSessionHandler`).

| state    | request                                                | answer                            | next state |
| -------- | ------------------------------------------------------ | --------------------------------- | ---------- |
| NONE     | epoch 0: all partitions                                | names a session                   | IN SESSION |
| NONE     | epoch 0: all partitions                                | names none                        | NONE       |
| IN SESSION | the next epoch: what has changed, and what to forget | without an error                  | IN SESSION |
| IN SESSION | the next epoch: what has changed, and what to forget | with an error, or none came       | NONE       |

A request that begins a new session names the old one, which the leader then drops.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from protocol.produce_fetch.fetch_request import FetchPartition, ForgottenTopic
from protocol.produce_fetch.parts import TopicKey

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = 2**31 - 1

Key = tuple[UUID, int]
"""(topic id, partition index)."""


class FetchSession:
    """See the table above.

    Attributes:
        id: the session's; 0 for none.
        epoch: that of the next request; 0 begins a new session.
    """

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self._sent: dict[Key, FetchPartition] = {}

    def next_request(
        self, wanted: Mapping[Key, FetchPartition]
    ) -> tuple[list[tuple[TopicKey, list[FetchPartition]]], list[ForgottenTopic]]:
        """The partitions to name in the next request: new and changed ones to fetch, and others to forget."""
        if self.epoch == FIRST_EPOCH:
            changed, forgotten = dict(wanted), []
        else:
            changed = {key: partition for key, partition in wanted.items() if self._sent.get(key) != partition}
            forgotten = [key for key in self._sent if key not in wanted]
        self._sent = dict(wanted)
        topics: dict[TopicKey, list[FetchPartition]] = {}
        for (topic_id, _), partition in changed.items():
            topics.setdefault(topic_id, []).append(partition)
        gone: dict[TopicKey, list[int]] = {}
        for topic_id, index in forgotten:
            gone.setdefault(topic_id, []).append(index)
        return list(topics.items()), [(topic_id, tuple(indexes)) for topic_id, indexes in gone.items()]

    def answered(self, session_id: int) -> None:
        """Note an answer that has no error for the request as a whole."""
        if self.epoch == FIRST_EPOCH:
            self.id = session_id
        elif session_id == NO_SESSION:
            self.id, self.epoch = NO_SESSION, FIRST_EPOCH
            return
        if self.id != NO_SESSION:
            self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def lost(self, *, unknown: bool = False) -> None:
        """Begin anew: there was no answer, or an error. `unknown`: the leader has no such session."""
        self.epoch = FIRST_EPOCH
        if unknown:
            self.id = NO_SESSION
