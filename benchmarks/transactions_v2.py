"""Producers that speak transactions V2 (KIP-890) by hand, like Kafka's own client: two requests per transaction.

One Produce adds its partitions to the transaction and carries all records; one EndTxn ends it and returns the next
epoch.
"""

from __future__ import annotations

import asyncio
import struct
import time
import uuid

import uvloop

from benchmarks.by_hand import Asker, compact_data, compact_text, flexible_frame, unsigned_varint
from benchmarks.transactions_by_client import ONE_CORE, Measured, Stopwatch, producers_of
from protocol.records.build import Record, build_batch

PRODUCE, FIND_COORDINATOR, INIT_PRODUCER_ID, END_TXN = 0, 10, 22, 26
VERSIONS = {PRODUCE: 12, FIND_COORDINATOR: 4, INIT_PRODUCER_ID: 4, END_TXN: 5}
TRANSACTION = b"\1"
NO_TAGS = b"\0"
TIMEOUT_MS = 60_000
RETRY_SECONDS = 0.02
"""How long Kafka's client waits before it retries (TransactionManager's ADD_PARTITIONS_RETRY_BACKOFF_MS)."""

RETRIABLE = {3, 5, 6, 14, 15, 16, 51}
"""Errors of new topics and coordinators; CONCURRENT_TRANSACTIONS: the last one's markers are still being written."""


class TransactionsV2:
    """Each of the producers, one connection each, completes `count` transactions."""

    cores = ONE_CORE

    def __init__(self, producers: int, count: int, records: int, partitions: int) -> None:
        self.who = producers_of("by hand", producers)
        self.ended = producers * count
        self._producers = producers
        self._count = count
        self._records = records
        self._partitions = partitions

    def measure(self, bootstrap: str, topic: str) -> Measured:
        return uvloop.run(self._measure(int(bootstrap.rpartition(":")[2]), topic))

    async def _measure(self, port: int, topic: str) -> Measured:
        shares = [len(range(number, self._records, self._partitions)) for number in range(self._partitions)]
        producers = [await _connect(port, topic, shares) for _ in range(self._producers)]
        await asyncio.gather(*(producer.init() for producer in producers))
        watch = Stopwatch()
        await asyncio.gather(*(producer.work(self._count) for producer in producers))
        measured = watch.measured(self.ended)
        for producer in producers:
            producer.transport.close()
        return measured


class _Producer(Asker):
    """One transactional producer; `shares`: how many records of a transaction each partition gets."""

    def __init__(self, topic: str, shares: list[int]) -> None:
        super().__init__()
        self._topic = compact_text(topic)
        self._shares = shares
        self._id = compact_text(uuid.uuid4().hex)
        self._producer_id = self._epoch = -1
        self._sequences = [0] * len(shares)

    async def init(self) -> None:
        await self.ask(_frame(FIND_COORDINATOR, TRANSACTION, unsigned_varint(2), self._id))
        new = struct.pack(">iqh", TIMEOUT_MS, self._producer_id, self._epoch)
        await self._taken(_frame(INIT_PRODUCER_ID, self._id, new), 5)

    async def work(self, count: int) -> None:
        for _ in range(count):
            # Response header's tags, one topic, its name, one array of partitions, a partition's index.
            await self._accepted(self._produce(), 1 + 1 + len(self._topic) + 1 + 4)
            commit = struct.pack(">qh?", self._producer_id, self._epoch, True)
            await self._taken(_frame(END_TXN, self._id, commit), 5)

    async def _taken(self, request: bytes, error_at: int) -> None:
        """Repeat the request until it is answered with a producer id and epoch, which are used from then on."""
        body = await self._accepted(request, error_at)
        self._producer_id, self._epoch = struct.unpack_from(">qh", body, error_at + 2)
        self._sequences = [0] * len(self._shares)

    async def _accepted(self, request: bytes, error_at: int) -> bytes:
        while True:
            body = await self.ask(request)
            (error,) = struct.unpack_from(">h", body, error_at)
            if error == 0:
                return body
            if error not in RETRIABLE:
                raise RuntimeError(f"refused with error {error}")
            await asyncio.sleep(RETRY_SECONDS)

    def _produce(self) -> bytes:
        now = time.time_ns() // 1_000_000
        partitions = []
        for number, share in enumerate(self._shares):
            batch = build_batch(
                [Record(offset, now, None, b"a small record") for offset in range(share)],
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=self._sequences[number],
                transactional=True,
            )
            self._sequences[number] += share
            partitions.append(struct.pack(">i", number) + compact_data(bytes(batch)) + NO_TAGS)
        topic = self._topic + unsigned_varint(len(partitions) + 1) + b"".join(partitions) + NO_TAGS
        return _frame(PRODUCE, self._id, struct.pack(">hi", -1, TIMEOUT_MS), unsigned_varint(2), topic)


def _frame(api: int, *fields: bytes) -> bytes:
    return flexible_frame(api, VERSIONS[api], *fields, NO_TAGS)


async def _connect(port: int, topic: str, shares: list[int]) -> _Producer:
    loop = asyncio.get_running_loop()
    _, producer = await loop.create_connection(lambda: _Producer(topic, shares), "127.0.0.1", port)
    return producer
