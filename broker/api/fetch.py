"""Fetch 4-18 (KIP-74, KIP-227, KIP-320, KIP-516; Kafka's `KafkaApis.handleFetchRequest` and `ReplicaManager`).

A consumer waits at most `odradek.fetch.max.wait.ms`, which only the profile for tests shortens.

From version 11 on, consumers may read from followers too, up to the high watermark that these know of (KIP-392). A
fetch of a follower reads up to the log's end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.api.leader_hints import endpoints_of, leader_of
from broker.network.ports import Handler
from broker.replication.bounds import UNREADABLE
from broker.replication.fetch_session import FetchContext, FetchSession, Results, Target
from broker.replication.leading.leader_state import ConsumerPlace
from broker.replication.partition import NO_LEADER_EPOCH, READ_COMMITTED, READ_UNCOMMITTED, Partition
from broker.replication.reads import Reader, RecordsRead
from broker.replication.waits import PartitionFetch
from broker.request_context import RequestContext
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from protocol.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    OffsetMovedToTieredStorage,
    TopicAuthorization,
    UnknownServerError,
    UnknownTopicId,
    UnsupportedVersion,
)
from protocol.produce_fetch.fetch_request import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    decode_request,
    encode_response,
)
from protocol.produce_fetch.fetch_response import NO_EPOCH
from protocol.produce_fetch.parts import TopicKey

if TYPE_CHECKING:
    from storage.log.read_plan import ReadPlan


FIRST_VERSION_WITH_RACKS = 11
FIRST_FLEXIBLE_VERSION = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_LEADERS = 16
WHO_LEADS = (NotLeaderOrFollower, FencedLeaderEpoch)
"""Errors that come with the leader, its epoch, and where it is."""
UNEXPECTED = (UnknownServerError, CorruptMessage)
"""Errors that count as failures of this broker in its metrics."""
OLD_CONSUMER, CONSUMER = Reader(), Reader(only_leader=False)


def _fetch(ctx: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once if `min_bytes` are in memory, there is an error, or no wait is allowed."""
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise InvalidRequest(f"There is no isolation level {request.isolation_level}.")
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    # A partition named twice keeps its first place and its last fields, as in Kafka.
    wanted = {target.key: target for key, partitions in request.topics for target in _targets(ctx, key, partitions)}
    forgotten = [(key, index) for key, indexes in request.forgotten_topics for index in indexes]
    reader = _reader(ctx, request)
    context = ctx.local.fetch_sessions.context(
        request.session_id, request.session_epoch, [*wanted.values()], forgotten, by_id, _read_as(ctx, request, reader)
    )
    fetch = Fetch(ctx, request, context, reader)
    plan = fetch.begin()
    if plan is None and fetch.is_enough:
        return fetch.response()
    return fetch.finish(plan)


def _failed_as_a_whole(ctx: RequestContext, request: FetchRequest, error: KafkaError) -> FetchResponse:
    """The error at the top (sent from version 7 on), and for every partition where they have names."""
    code = int(error.code)
    named: list[tuple[TopicKey, list[FetchPartitionResponse]]] = []
    if ctx.version < FIRST_VERSION_WITH_TOPIC_IDS:
        named = [
            (
                key,
                [
                    FetchPartitionResponse(partition.partition, code, aborted_transactions=())
                    for partition in partitions
                ],
            )
            for key, partitions in request.topics
        ]
    return FetchResponse(named, error_code=code, session_id=request.session_id)


def _targets(ctx: RequestContext, key: TopicKey, partitions: list[FetchPartition]) -> list[Target]:
    if isinstance(key, str):
        name: str | None = key
    else:
        topic = ctx.image.topics.by_id(key)
        name = None
        if topic is not None:
            key, name = topic.id, topic.name  # the same object as its partitions have: soon found to be equal
    return [
        Target(
            (key, asked.partition),
            name,
            asked.fetch_offset,
            asked.partition_max_bytes,
            asked.current_leader_epoch if asked.current_leader_epoch > NO_LEADER_EPOCH else NO_LEADER_EPOCH,
            asked.last_fetched_epoch,
            asked.log_start_offset,
        )
        for asked in partitions
    ]


def _reader(ctx: RequestContext, request: FetchRequest) -> Reader:
    if request.replica_id >= 0:
        ctx.local.metrics.follower_fetches += 1
        return Reader(request.replica_id, request.replica_epoch)
    if ctx.version < FIRST_VERSION_WITH_RACKS:
        return OLD_CONSUMER
    if not request.rack_id or not ctx.replicas.is_rack_aware:
        return CONSUMER
    return Reader(only_leader=False, place=ConsumerPlace(request.rack_id, ctx.connection.listener_name))


def _read_as(ctx: RequestContext, request: FetchRequest, reader: Reader) -> object:
    """What tells whether partitions of a session that had nothing to read still have not, unless they have changed.

    None if all are to be looked at: for a follower, whose request says how far it is in each of them; where rights,
    quotas or the place of the consumer count too; and if so many bytes are to be waited for that they must be counted.
    """
    is_plain = request.min_bytes <= 1 and reader.replica_id < 0 and reader.place is None
    if not is_plain or ctx.permissions is not None or ctx.local.throttling.enabled:
        return None
    return request.isolation_level, reader.only_leader


def _tells_divergence(found: tuple[Target, FetchPartitionResponse]) -> bool:
    return found[1].diverging_epoch is not NO_EPOCH


class Fetch(RecordsRead):
    """One request: what it reads, and its answer."""

    def __init__(self, ctx: RequestContext, request: FetchRequest, context: FetchContext, reader: Reader) -> None:
        self._ctx = ctx
        self._request = request
        self._context = context
        max_bytes = min(request.max_bytes, ctx.local.config.integer("fetch.max.bytes"))
        # Whether a quota of clients may hold the request back; none applies to replicas.
        self._limited = ctx.local.throttling.enabled and request.replica_id < 0
        if self._limited:
            max_bytes = min(max_bytes, ctx.local.throttling.most_to_fetch(ctx))
        super().__init__(
            ctx.replicas,
            [],
            reader,
            request.isolation_level,
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            context.watching,
        )
        self._unknown: Results = []
        self._find_partitions(context.targets)

    def _find_partitions(self, targets: Iterable[Target]) -> None:
        """Look up what is to be read. Partitions unknown now neither end a wait nor are looked for again after it.

        Those that only other nodes have end it.
        """
        at, permissions, partitions = self._replicas.at, self._ctx.permissions, self.partitions
        for target in targets:
            index = target.key[1]
            result = FetchPartitionResponse(index)
            try:
                if permissions is not None:
                    self._require_right(target)
                found = None if target.topic is None else at((target.topic, index))
                partitions.append(PartitionFetch(target, self.find(target) if found is None else found, result))
            except KafkaError as error:
                self._refuse(target, result, error)
                result.aborted_transactions = ()
                self._unknown.append((target, result))
                if isinstance(error, NotLeaderOrFollower):
                    self.wait_at_most(0)
        if self._request.replica_id < 0:  # Kafka picks out unknown topic ids before it looks for the rest
            self._unknown.sort(key=lambda one: one[1].error_code != ErrorCode.unknown_topic_id)

    async def finish(self, plan: ReadPlan | None) -> FetchResponse:
        """Read on from `plan`, wait up to `max_wait_ms` for `min_bytes` (Kafka's `DelayedFetch`), and answer."""
        await self.go_on(plan)
        if not self.is_enough:
            if self._request.replica_id < 0:
                self.wait_at_most(self._ctx.local.config.integer("odradek.fetch.max.wait.ms"))
            await self.wait()
            if self._limited:
                self._ctx.connection.spent_ms()  # waiting does not count for the client's quota
            self._find_partitions(self._changed())
            await self.again()
        return self.response()

    # -- partitions of the session that were left alone

    def _changed(self) -> list[Target]:
        """Those that have changed since the request came."""
        if self._watching is None:
            return []
        looked_at = {target.key for target in self._context.targets}
        return [target for target in self._watching.in_order(only_due=True) if target.key not in looked_at]

    def has_changed(self) -> bool:
        return any(map(self._ends_wait, self._changed()))

    def _ends_wait(self, target: Target) -> bool:
        """Do as `DelayedFetch` does with those that were looked at."""
        partition = None if target.topic is None else self._ctx.replicas.get(target.topic, target.key[1])
        if partition is None or partition.leader_epoch != target.idle_in:
            return True
        bounds = partition.bounds
        end_offset = bounds[self._isolation]
        if bounds is UNREADABLE or not bounds[0] <= target.fetch_offset <= end_offset:
            return True
        return target.fetch_offset < end_offset and target.max_bytes > 0

    def _leave_alone(self, session: FetchSession) -> None:
        """Let the partitions that had nothing to read, and still have not, tell when they change."""
        for one in self.partitions:
            partition = one.partition
            is_same = one.leader_epoch == partition.leader_epoch and not partition.is_deleted
            if is_same and one.idle_at is not None and one.idle_at == partition.bounds:
                self._ctx.local.fetch_sessions.watch(session, one.target, partition.key, one.leader_epoch)

    # -- errors

    def refuse(self, one: PartitionFetch, error: KafkaError) -> None:
        """Answer a partition that was found with an error."""
        ctx = self._ctx
        self._refuse(one.target, one.result, error)
        if isinstance(error, OffsetMovedToTieredStorage):  # the follower begins anew, with the leader's log start
            one.result.high_watermark = one.partition.high_watermark
            one.result.log_start_offset = one.partition.log_start_offset
        elif isinstance(error, UNEXPECTED):
            ctx.local.metrics.fetch_failed(one.partition.topic)

    def find(self, target: Target) -> Partition:
        return self._ctx.replicas.find(target.topic or self._name(target), target.key[1])

    def _name(self, target: Target) -> str:
        """The topic's name. Raises UnknownTopicId."""
        key = target.key[0]
        if target.topic is None and not isinstance(key, str):
            topic = self._ctx.image.topics.by_id(key)
            target.topic = None if topic is None else topic.name
        if target.topic is None:
            raise UnknownTopicId
        return target.topic

    def _require_right(self, target: Target) -> None:
        """Raises TopicAuthorization unless a consumer may read the topic, or a replica may act for its cluster."""
        name = self._name(target)
        if self._request.replica_id < 0:
            may = self._ctx.allows(AclOperation.READ, ResourceType.TOPIC, name)
        else:
            may = self._ctx.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        if not may:
            raise TopicAuthorization

    def _refuse(self, target: Target, result: FetchPartitionResponse, error: KafkaError) -> None:
        result.error_code = int(error.code)
        result.high_watermark = result.last_stable_offset = result.log_start_offset = -1
        result.aborted_transactions = None
        result.records = b""
        self._ctx.local.metrics.request_error("fetch", error.code)
        if isinstance(error, WHO_LEADS) and self._ctx.version >= FIRST_VERSION_WITH_LEADERS:
            result.current_leader = leader_of(self._ctx.image, target.topic, result.partition_index)

    # -- the answer

    def _results(self) -> Results:
        return [(fetch.target, fetch.result) for fetch in self.partitions] + self._unknown

    def response(self) -> FetchResponse:
        """The answer with what was read; over a quota it has no records, but the time to wait (KIP-219)."""
        if self._limited:
            throttle_ms = self._ctx.local.throttling.fetch_ms(self._ctx, self._size)
            if throttle_ms:
                error_code, session_id, _ = self._context.preview(self._results())
                return FetchResponse([], int(error_code), session_id, throttle_ms)
        error_code, session_id, results = self._context.respond(self._results())
        if self._watching is not None and error_code == ErrorCode.none:
            self._leave_alone(self._watching)
        if self.failed and self._ctx.version < FIRST_FLEXIBLE_VERSION and any(map(_tells_divergence, results)):
            raise UnsupportedVersion  # a session that a newer version began: older ones have no field for it
        names: list[str | None] = []
        topics: list[tuple[TopicKey, list[FetchPartitionResponse]]] = []
        of_topic: list[FetchPartitionResponse] = []
        last: TopicKey | None = None
        for target, result in results:
            key = target.key[0]
            if last is not key and last != key:
                last, of_topic = key, []
                topics.append((key, of_topic))
                names.append(target.topic)
            of_topic.append(result)
        self._count(names, topics)
        response = FetchResponse(topics, error_code=int(error_code), session_id=session_id)
        if not self._is_follower and (self.failed or self._unknown):
            leaders = [result.current_leader for _, result in results]
            response.node_endpoints = endpoints_of(self._ctx.image, leaders, self._ctx.connection.listener_name)
        return response

    def _count(self, names: list[str | None], topics: list[tuple[TopicKey, list[FetchPartitionResponse]]]) -> None:
        """Count what the answer has, for metrics and for the throttle of replication."""
        metrics, quota = self._ctx.local.metrics, self._replicas.leader_quota
        throttle = quota if self._is_follower and quota.is_active else None
        for name, (_, results) in zip(names, topics, strict=True):
            if name is None:
                continue
            size, is_known = 0, name in metrics.topics
            for result in results:
                is_known = is_known or result.error_code == 0
                read = len(result.records or b"")
                size += read
                if throttle is not None:
                    throttle.record(name, result.partition_index, read)
            if is_known:
                metrics.fetched(name, len(results), size)

    def _size(self) -> int:
        """Bytes of the answer with its size prefix and without its header, as Kafka counts them."""
        _, _, results = self._context.preview(self._results())
        by_topic = groupby(results, key=lambda one: one[0].key[0])
        response = FetchResponse([(key, [result for _, result in group]) for key, group in by_topic])
        # The correlation id and, in flexible versions, an empty section of tagged fields.
        header_size = 5 if self._ctx.version >= FIRST_FLEXIBLE_VERSION else 4
        return sum(map(len, encode_response(response, self._ctx.version, 0))) - header_size


fetch = Handler(_fetch, decode=decode_request, encode=encode_response, failed=_failed_as_a_whole)
