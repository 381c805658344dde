"""Fetch 4-18 (KIP-74, KIP-227, KIP-320, KIP-516; Kafka's `KafkaApis.handleFetchRequest` and `ReplicaManager`).

A consumer waits at most `odradek.fetch.max.wait.ms`, which only the profile for tests shortens.

From version 11 on, consumers may read from followers too, up to the high watermark that these know of (KIP-392). A
fetch of a follower reads up to the log's end.
"""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import groupby
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.api.leader_hints import endpoints_of, leader_of
from broker.network.ports import Handler
from broker.replication.fetch_session import FetchContext, Results, Target
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
    context = ctx.local.fetch_sessions.context(
        request.session_id, request.session_epoch, [*wanted.values()], forgotten, by_id
    )
    fetch = Fetch(ctx, request, context)
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
            max(asked.current_leader_epoch, NO_LEADER_EPOCH),
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


def _tells_divergence(found: tuple[Target, FetchPartitionResponse]) -> bool:
    return found[1].diverging_epoch is not NO_EPOCH


class Fetch(RecordsRead):
    """One request: what it reads, and its answer."""

    def __init__(self, ctx: RequestContext, request: FetchRequest, context: FetchContext) -> None:
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
            _reader(ctx, request),
            request.isolation_level,
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
        )
        self._unknown: Results = []
        self._find_partitions()

    def _find_partitions(self) -> None:
        """Look up what is to be read. Partitions unknown now neither end a wait nor are looked for again after it.

        Those that only other nodes have end it.
        """
        for target in self._context.targets:
            result = FetchPartitionResponse(target.key[1])
            try:
                if self._ctx.permissions is not None:
                    self._require_right(target)
                self.partitions.append(PartitionFetch(target, self.find(target), result))
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
            await self.again()
        return self.response()

    # -- errors

    def refuse(self, one: PartitionFetch, error: KafkaError) -> None:
        """Answer a partition that was found with an error."""
        ctx = self._ctx
        self._refuse(one.target, one.result, error)
        if isinstance(error, UNEXPECTED):
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
        if self.failed and self._ctx.version < FIRST_FLEXIBLE_VERSION and any(map(_tells_divergence, results)):
            raise UnsupportedVersion  # a session that a newer version began: older ones have no field for it
        metrics = self._ctx.local.metrics
        is_consumer = self._request.replica_id < 0
        throttle = None if is_consumer else self._ctx.replicas.leader_quota
        topics: list[tuple[TopicKey, list[FetchPartitionResponse]]] = []
        for target, result in results:
            key = target.key[0]
            if not topics or (topics[-1][0] is not key and topics[-1][0] != key):
                topics.append((key, []))
            topics[-1][1].append(result)
            if throttle is not None and throttle.is_active and target.topic is not None:
                throttle.record(target.topic, result.partition_index, len(result.records or b""))
            if target.topic is not None and (result.error_code == 0 or target.topic in metrics.topics):
                metrics.fetched(target.topic, len(result.records or b""))
        response = FetchResponse(topics, error_code=int(error_code), session_id=session_id)
        if is_consumer and (self.failed or self._unknown):
            leaders = [result.current_leader for _, result in results]
            response.node_endpoints = endpoints_of(self._ctx.image, leaders, self._ctx.connection.listener_name)
        return response

    def _size(self) -> int:
        """Bytes of the answer with its size prefix and without its header, as Kafka counts them."""
        _, _, results = self._context.preview(self._results())
        by_topic = groupby(results, key=lambda one: one[0].key[0])
        response = FetchResponse([(key, [result for _, result in group]) for key, group in by_topic])
        # The correlation id and, in flexible versions, an empty section of tagged fields.
        header_size = 5 if self._ctx.version >= FIRST_FLEXIBLE_VERSION else 4
        return sum(map(len, encode_response(response, self._ctx.version, 0))) - header_size


fetch = Handler(_fetch, decode=decode_request, encode=encode_response, failed=_failed_as_a_whole)
