"""The share partitions of this node: loaded when a member first fetches, kept while the node leads the partition.

A fetch that finds nothing to acquire waits here (`waiter`), and is woken when another one, an acknowledgement or the
end of a lock may have left something (`available`): one at a time, first come, first served.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from broker.coordinators.hosted import Host
from broker.coordinators.share_coordinator import ShareStates
from broker.replication.partition import Partition, Role
from broker.share.runs import LetterCause, Run
from broker.share.sessions import ShareSession, ShareSessions
from broker.share.settings import AllShareSettings, first_offset
from broker.share.share_partition import SharePartition, for_member
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol.coordinator_records.share_records import NO_START_OFFSET, SharePartitionKey
from protocol.errors import KafkaError, NotLeaderOrFollower

if TYPE_CHECKING:
    from broker.share.dead_letters import DeadLetterQueues


class SharePartitions:
    """Finds, loads and ends share partitions.

    `sessions` are those of the members that fetch from them, `states` what the share coordinator keeps.
    """

    def __init__(self, host: Host, states: ShareStates) -> None:
        config = host.current.config
        self.settings = AllShareSettings(host.current, host.cache)
        self.sessions = ShareSessions(config.integer("group.share.max.share.sessions"), self._changed)
        self.states = states
        self._host = host
        self._letters: DeadLetterQueues | None = None
        self._clock = host.clock
        self._by_key: dict[SharePartitionKey, SharePartition] = {}
        self._loading: dict[SharePartitionKey, asyncio.Task[SharePartition]] = {}
        self._waiting: dict[SharePartitionKey, dict[Future[None], None]] = {}
        self._listeners: list[Callable[[], None]] = []

    def get(self, key: SharePartitionKey) -> SharePartition | None:
        """The share partition if it is loaded and this node's."""
        known = self._by_key.get(key)
        if known is not None and known.fenced:
            self._end(key)
            return None
        return known

    async def load(self, key: SharePartitionKey, partition: Partition) -> SharePartition:
        """The share partition, loaded if need be. Raises OffsetNotAvailable, and errors of the share coordinator."""
        known = self.get(key)
        if known is not None:
            return known
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.ensure_future(self._load(key, partition))
            task.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(task)

    async def _load(self, key: SharePartitionKey, partition: Partition) -> SharePartition:
        partition.check_leads()
        leader_epoch = partition.leader_epoch
        try:
            loaded = await self.states.read(key, leader_epoch)
        except KafkaError as error:
            raise for_member(error) from error
        start_offset = loaded.start_offset
        if start_offset == NO_START_OFFSET:
            start_offset = await first_offset(
                partition, self.settings.of(key.group_id).offset_reset, self._clock.wall_ms()
            )
        if partition.role is not Role.LEADER or partition.leader_epoch != leader_epoch:
            raise NotLeaderOrFollower
        share = SharePartition(
            key,
            leader_epoch,
            loaded,
            start_offset,
            lambda: self.settings.of(key.group_id).rules,
            self.states.write,
            self._send_letters,
            self._clock,
        )
        share.on_available = lambda: self.available(key)
        self._by_key[key] = share
        self._changed()
        if not self.sessions.has_group(key.group_id):
            self._end(key)  # who asked has gone meanwhile, so nobody would ever unload it
        return share

    def _send_letters(self, key: SharePartitionKey, runs: Sequence[tuple[Run, LetterCause]]) -> Future[None]:
        """See `SendLetters`; most groups have no dead letter queue."""
        if self._letters is None:
            from broker.share.dead_letters import DeadLetterQueues

            self._letters = DeadLetterQueues(self._host, self.settings)
        return self._letters.write(key, runs)

    def of_group(self, group_id: str) -> list[tuple[SharePartitionKey, SharePartition]]:
        """Those of a group that are loaded here."""
        return [(key, share) for key, share in self._by_key.items() if key.group_id == group_id]

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever sessions, or what is in flight, may have changed. Returns what ends this."""
        self._listeners.append(changed)
        return lambda: self._listeners.remove(changed)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    # -- waiting

    def waiter(self, keys: Iterable[SharePartitionKey]) -> Future[None]:
        """Done when one of these may have more to acquire; cancel it to wait no longer.

        One waiter is woken at a time, first come, first served: when its fetch ends, it calls `available` for the next.
        """
        future: Future[None] = asyncio.get_running_loop().create_future()
        wanted = list(keys)
        for key in wanted:
            self._waiting.setdefault(key, {})[future] = None

        def forget(_: Future[None]) -> None:
            for key in wanted:
                waiting = self._waiting.get(key)
                if waiting is not None:
                    waiting.pop(future, None)
                    if not waiting:
                        del self._waiting[key]

        future.add_done_callback(forget)
        return future

    def available(self, key: SharePartitionKey) -> None:
        """Wake who has waited longest, as there may be more to acquire. Who reads at this moment shall look again."""
        self._changed()
        share = self._by_key.get(key)
        if share is not None and share.reading:
            share.missed = True
            return
        waiting = (future for future in self._waiting.get(key, ()) if not future.done())
        longest = next(waiting, None)
        if longest is not None:
            longest.set_result(None)

    def _wake_all(self, key: SharePartitionKey) -> None:
        for future in self._waiting.get(key, ()):
            if not future.done():
                future.set_result(None)

    # -- ends

    def end_session(self, session: ShareSession) -> list[Future[None]]:
        """Release what the session's member has acquired; with the group's last session its partitions are unloaded."""
        group_id, member_id = session.key
        released = [share.release({member_id})[1] for _, share in self.of_group(group_id)]
        if released and not self.sessions.has_group(group_id):
            asyncio.gather(*released, return_exceptions=True).add_done_callback(lambda _: self._unload(group_id))
        return released

    def _unload(self, group_id: str) -> None:
        if not self.sessions.has_group(group_id):
            self.unload(group_id)

    def unload(self, group_id: str) -> None:
        """Forget what is in flight for a group; who fetches next reads its state anew."""
        for key, _ in self.of_group(group_id):
            self._end(key)
            self._wake_all(key)

    def connection_lost(self, connection: object) -> None:
        """Sessions end with the connection that began them."""
        for session in self.sessions.close_of(connection):
            self.end_session(session)

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Settings may have changed; share partitions of partitions that are gone, or led elsewhere, end."""
        self.settings.follow(delta)
        if not delta.touched("topics"):
            return
        changed = {*delta.topics.changed, *delta.topics.deleted}
        for key, share in [(key, share) for key, share in self._by_key.items() if key.topic_id in changed]:
            topic = image.topics.by_id(key.topic_id)
            partition = None if topic is None else self._host.replicas.get(topic.name, key.partition)
            is_led = partition is not None and partition.role is Role.LEADER
            if partition is None or not is_led or partition.leader_epoch != share.leader_epoch:
                self._end(key)
                self._wake_all(key)

    def stop(self) -> None:
        for key in list(self._by_key):
            self._end(key)
        for task in self._loading.values():
            task.cancel()
        self.states.stop()

    def _end(self, key: SharePartitionKey) -> None:
        self._by_key.pop(key).close()
