"""Fetch 4-18 (KIP-74, KIP-227, KIP-320, KIP-516; Kafka's `KafkaApis.handleFetchRequest` and `ReplicaManager`).

Consumers only: a request that comes as a replica is answered NOT_LEADER_OR_FOLLOWER per partition, as this node leads
partitions that no other broker replicates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from itertools import groupby
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.network.context import RequestContext
from broker.replicas.delayed_fetch import NOWHERE, DelayedFetch, PartitionFetch
from broker.replicas.fetch_session import FetchContext, Results, Target
from broker.replicas.partition import NO_LEADER_EPOCH, READ_COMMITTED, READ_UNCOMMITTED, Partition
from protocol.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from protocol.hot.common import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint, TopicKey
from protocol.hot.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    decode_request,
    encode_response,
)
from protocol.hot.fetch_response import NO_EPOCH

if TYPE_CHECKING:
    from storage.log.read_plan import ReadPlan, Records

decode = decode_request
encode = encode_response

ONLY_READS = True

FIRST_FLEXIBLE_VERSION = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_LEADERS = 16
WHO_LEADS = (NotLeaderOrFollower, FencedLeaderEpoch)
"""Errors that come with the leader, its epoch, and where it is."""
UNEXPECTED = (UnknownServerError, CorruptMessage)
"""Errors that count as failures of this broker in its metrics."""

READ_AT_ONCE = 1024 * 1024
"""Record data of an answer beyond this many bytes is read when the client has taken what comes before."""

Reading = Generator["ReadPlan", "Records", None]
"""Reads planned one after the other; each is sent the records that it asked for, or has the error thrown."""


def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once if `min_bytes` are in memory, there is an error, or no wait is allowed."""
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    # A partition named twice keeps its first place and its last fields, as in Kafka.
    wanted = {target.key: target for key, partitions in request.topics for target in _targets(ctx, key, partitions)}
    forgotten = [(key, index) for key, indexes in request.forgotten_topics for index in indexes]
    context = ctx.node.fetch_sessions.context(
        request.session_id, request.session_epoch, [*wanted.values()], forgotten, by_id
    )
    fetch = Fetch(ctx, request, context)
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        fetch.refuse_isolation_level()
    reading = fetch.read()
    plan = _advance(reading)
    if plan is None and fetch.answerable:
        return fetch.response()
    return fetch.finish(reading, plan)


def error_response(ctx: RequestContext, request: FetchRequest, error: KafkaError) -> FetchResponse:
    """The error at the top (sent from version 7 on), and for every partition where they have names."""
    code = int(error.code)
    named: list[tuple[TopicKey, list[FetchPartitionResponse]]] = []
    if ctx.version < FIRST_VERSION_WITH_TOPIC_IDS:
        named = [
            (key, [FetchPartitionResponse(one.partition, code, aborted_transactions=()) for one in partitions])
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
        )
        for asked in partitions
    ]


def _tells_divergence(one: tuple[Target, FetchPartitionResponse]) -> bool:
    return one[1].diverging_epoch is not NO_EPOCH


def _advance(reading: Reading, outcome: Records | KafkaError | None = None) -> ReadPlan | None:
    """Go on with what came of the last plan, its bytes or an error, as long as the page cache has the next bytes.

    Returns the first plan that would wait for the device, or None at the end.
    """
    try:
        while True:
            if outcome is None:
                plan = next(reading)
            elif isinstance(outcome, KafkaError):
                plan = reading.throw(outcome)  # an error of that partition, not of the request
            else:
                plan = reading.send(outcome)
            try:
                outcome = plan.try_records()
            except KafkaError as error:
                outcome = error
            if outcome is None:
                return plan
    except StopIteration:
        return None


class Fetch:
    """One request: what it reads, and its answer."""

    def __init__(self, ctx: RequestContext, request: FetchRequest, context: FetchContext) -> None:
        self._ctx = ctx
        self._request = request
        self._context = context
        self._committed = request.isolation_level == READ_COMMITTED
        self._max_bytes = min(request.max_bytes, ctx.node.config.integer("fetch.max.bytes"))
        if self._limited:
            self._max_bytes = min(self._max_bytes, ctx.node.throttling.most_to_fetch(ctx))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._partitions: list[PartitionFetch] = []
        self._unknown: Results = []
        self._left = self._read_bytes = 0
        self._failed = False
        self._find_partitions()

    def _find_partitions(self) -> None:
        """Look up what is to be read. Partitions unknown now neither end a wait nor are looked for again after it."""
        for target in self._context.targets:
            result = FetchPartitionResponse(target.key[1])
            try:
                self._partitions.append(PartitionFetch(target, self._partition(target), result))
            except KafkaError as error:
                self._refuse(result, error)
                result.aborted_transactions = ()
                self._unknown.append((target, result))
        if self._request.replica_id < 0:  # Kafka picks out unknown topic ids before it looks for the rest
            self._unknown.sort(key=lambda one: one[1].error_code != ErrorCode.unknown_topic_id)

    @property
    def _limited(self) -> bool:
        """Whether a quota of clients may hold the request back; none applies to replicas."""
        return self._ctx.node.throttling.enabled and self._request.replica_id < 0

    @property
    def answerable(self) -> bool:
        """Whether there is nothing to wait for."""
        enough = self._read_bytes >= self._min_bytes
        return enough or self._failed or self._request.max_wait_ms <= 0 or not self._partitions

    async def finish(self, reading: Reading, plan: ReadPlan | None) -> FetchResponse:
        """Read on from `plan`, wait up to `max_wait_ms` for `min_bytes` (Kafka's `DelayedFetch`), and answer."""
        await self._read_on(reading, plan)
        if not self.answerable:
            await self._wait()
            if self._limited:
                self._ctx.connection.spent_ms()  # waiting does not count for the client's quota
            reading = self.read()
            await self._read_on(reading, _advance(reading))
        return self.response()

    async def _read_on(self, reading: Reading, plan: ReadPlan | None) -> None:
        while plan is not None:
            outcome: Records | KafkaError
            try:
                # A read that began goes on in its thread, and holds its file, even if this request is given up.
                outcome = await asyncio.shield(plan.records())
            except KafkaError as error:
                outcome = error
            plan = _advance(reading, outcome)

    async def _wait(self) -> None:
        node = self._ctx.node
        if node.replicas.stopping:
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        operation = DelayedFetch(self._partitions, self._request.isolation_level, self._min_bytes, ready)
        keys = [one.partition.key for one in self._partitions]
        node.replicas.fetch_purgatory.watch(operation, keys, self._request.max_wait_ms)
        try:
            await ready
        finally:
            operation.force_complete()

    # -- reading

    def read(self) -> Reading:
        """Read the partitions in the order of the request, within the limits on bytes (KIP-74).

        Those that had nothing to read, and still have not, keep their results.
        """
        self._left, self._read_bytes, self._failed = self._max_bytes, 0, False
        for one in self._partitions:
            try:
                if one.idle_at is not None and one.idle_at == one.partition.bounds:
                    continue
                if one.partition.is_deleted:
                    one.partition = self._partition(one.target)
                plan = self._plan(one)
                if plan is not None:
                    self._take(one, plan, (yield plan))
            except KafkaError as error:
                self._fail(one, error)
            self._left = max(0, self._left)  # a negative limit is that of the first partition alone, as in Kafka

    def _fail(self, one: PartitionFetch, error: KafkaError) -> None:
        """Answer a partition that was found with an error."""
        self._failed = True
        node = self._ctx.node
        self._refuse(one.result, error)
        if isinstance(error, UNEXPECTED):
            node.metrics.fetch_failed(one.partition.topic)
        if isinstance(error, WHO_LEADS) and self._ctx.version >= FIRST_VERSION_WITH_LEADERS:
            one.result.current_leader = LeaderIdAndEpoch(node.node_id, one.partition.leader_epoch)

    def refuse_isolation_level(self) -> None:
        """Raises UnknownServerError if there is a partition to read from, which is when Kafka fails over the level."""
        if self._partitions:
            raise UnknownServerError

    def _partition(self, target: Target) -> Partition:
        key, index = target.key
        node = self._ctx.node
        if target.topic is None and not isinstance(key, str):
            topic = self._ctx.image.topics.by_id(key)
            target.topic = None if topic is None else topic.name
        if target.topic is None:
            raise UnknownTopicId
        partition = node.replicas.get(target.topic, index)
        if partition is None:
            raise UnknownTopicOrPartition
        return partition

    def _plan(self, one: PartitionFetch) -> ReadPlan | None:
        """Begin the partition's result; return its read, or None if there is nothing new, as in most of many."""
        target, partition, result = one.target, one.partition, one.result
        result.records, result.aborted_transactions, one.idle_at = b"", None, None
        key = target.key[0]
        if key is not partition.topic_id and not isinstance(key, str) and key != partition.topic_id:
            raise InconsistentTopicId
        partition.check_leader_epoch(target.current_leader_epoch)
        if self._request.replica_id >= 0:  # no replica is known here; one that names the right epoch is to try again
            raise NotLeaderOrFollower if target.current_leader_epoch < 0 else UnknownLeaderEpoch
        start, stable, high_watermark = bounds = partition.bounds
        result.log_start_offset, result.last_stable_offset, result.high_watermark = bounds
        if target.last_fetched_epoch >= 0 and self._diverges(target, partition, result):
            return None
        if self._committed:
            result.aborted_transactions = ()
        end_offset = stable if self._committed else high_watermark
        if start <= target.fetch_offset == end_offset:
            one.offset, one.idle_at = end_offset, bounds
            one.start = NOWHERE if self._min_bytes <= 1 <= target.max_bytes else partition.place(end_offset)
            return None
        max_bytes = min(target.max_bytes, self._left)
        at_once = READ_AT_ONCE - self._read_bytes
        plan = partition.plan_read(target.fetch_offset, max_bytes, end_offset, self._read_bytes == 0, at_once)
        if max_bytes < 0 and plan.segment is not None:
            raise UnknownServerError  # as Kafka's segments do, where there is something to read
        return plan

    def _take(self, one: PartitionFetch, plan: ReadPlan, data: Records) -> None:
        """Put what was read into the partition's result."""
        result = one.result
        if plan.first_entry_incomplete:
            data = b""
            if plan.max_bytes > 0:  # Kafka has read a part of it and throws that away, transactions and all
                result.aborted_transactions = None
        result.records = data
        one.start = plan.upper if plan.segment is None else plan.start
        one.offset = one.start.offset
        if self._committed and result.aborted_transactions is not None:
            result.aborted_transactions = [
                AbortedTransaction(found.producer_id, found.first_offset)
                for found in one.partition.aborted_transactions(plan, len(data))
            ]
        self._left -= len(data)
        self._read_bytes += len(data)

    def _diverges(self, target: Target, partition: Partition, result: FetchPartitionResponse) -> bool:
        """Whether the log differs from the one that the client read before; if so, note where in `result` (KIP-595)."""
        epoch, end_offset = partition.end_offset_for_epoch(target.last_fetched_epoch)
        if epoch < 0 or end_offset < 0 or target.fetch_offset < partition.log_start_offset:
            raise OffsetOutOfRange
        if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
            result.diverging_epoch = EpochEndOffset(epoch, end_offset)
            self._failed = True  # answered at once
            return True
        return False

    def _refuse(self, result: FetchPartitionResponse, error: KafkaError) -> None:
        result.error_code = int(error.code)
        result.high_watermark = result.last_stable_offset = result.log_start_offset = -1
        result.aborted_transactions = None
        result.records = b""
        self._ctx.node.metrics.request_error("fetch", error.code)

    # -- the answer

    def _results(self) -> Results:
        return [(one.target, one.result) for one in self._partitions] + self._unknown

    def response(self) -> FetchResponse:
        """The answer with what was read; over a quota it has no records, but the time to wait (KIP-219)."""
        if self._limited:
            throttle_ms = self._ctx.node.throttling.fetch_ms(self._ctx, self._size)
            if throttle_ms:
                error_code, session_id, _ = self._context.preview(self._results())
                return FetchResponse([], int(error_code), session_id, throttle_ms)
        error_code, session_id, results = self._context.respond(self._results())
        if self._failed and self._ctx.version < FIRST_FLEXIBLE_VERSION and any(map(_tells_divergence, results)):
            raise UnsupportedVersion  # a session that a newer version began: older ones have no field for it
        metrics = self._ctx.node.metrics
        topics: list[tuple[TopicKey, list[FetchPartitionResponse]]] = []
        for target, result in results:
            key = target.key[0]
            if not topics or (topics[-1][0] is not key and topics[-1][0] != key):
                topics.append((key, []))
            topics[-1][1].append(result)
            if target.topic is not None and (result.error_code == 0 or target.topic in metrics.topics):
                metrics.fetched(target.topic, len(result.records or b""))
        response = FetchResponse(topics, error_code=int(error_code), session_id=session_id)
        is_consumer = self._request.replica_id < 0
        if self._failed and is_consumer and any(one.current_leader is not UNKNOWN_LEADER for _, one in results):
            response.node_endpoints = (self._endpoint(),)
        return response

    def _endpoint(self) -> NodeEndpoint:
        """The leader's address (KIP-951): this node's."""
        node = self._ctx.node
        address = node.advertised[self._ctx.connection.listener_name]
        return NodeEndpoint(node.node_id, address.host, address.port, node.config.optional_string("broker.rack"))

    def _size(self) -> int:
        """Bytes of the answer with its size prefix and without its header, as Kafka counts them."""
        _, _, results = self._context.preview(self._results())
        by_topic = groupby(results, key=lambda one: one[0].key[0])
        response = FetchResponse([(key, [result for _, result in group]) for key, group in by_topic])
        # The correlation id and, in flexible versions, an empty section of tagged fields.
        header_size = 5 if self._ctx.version >= FIRST_FLEXIBLE_VERSION else 4
        return sum(map(len, encode_response(response, self._ctx.version, 0))) - header_size
