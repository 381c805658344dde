"""Readers of `__remote_log_metadata` go on: after what nobody has foreseen, and with a topic that was made anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchRequest
from kio.schema.list_offsets.v11.request import ListOffsetsRequest

from broker.coordinators.hosted import Host
from broker.peers.call import Call
from broker.peers.leaders import EARLIEST
from broker.tiering.metadata_topic import RETRY_MS, MetadataTopic
from protocol.produce_fetch import replica_fetch
from protocol.produce_fetch.fetch_request import decode_request
from protocol.produce_fetch.fetch_response import FetchPartitionResponse, FetchResponse
from protocol.reader import entity_reader
from protocol.records.build import Record, build_batch
from tests.doubles.clock import ManualClock
from tests.unit.broker.tiering.test_metadata_sources import OtherBroker

HERE, LEADER = 1, 2


class Leading(OtherBroker):
    """A broker that leads the one partition, which has one record, of the topic with this id."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.topic_id = UUID(int=7)
        self.taken: list[Record] = []
        self.errors: list[Exception] = []
        self.forgotten: list[int] = []
        host = SimpleNamespace(
            node_id=HERE,
            clock=self.clock,
            cache=SimpleNamespace(topic=lambda _: self.topic),
            brokers=self,
            replicas=SimpleNamespace(connect=lambda _: self),
        )
        self.reading = MetadataTopic(cast(Host, host), self.take, self.forgotten.append)

    @property
    def topic(self) -> Any:
        return SimpleNamespace(id=self.topic_id, partition_count=1, partitions={0: SimpleNamespace(leader=LEADER)})

    def take(self, record: Record) -> None:
        if self.errors:
            raise self.errors.pop()
        self.taken.append(record)

    async def send(self, call: Call[Any], _timeout_ms: float | None = None) -> Any:
        out = bytearray()
        if call.api_key != FetchRequest.__api_key__:
            call.encode(out, call.highest)
            request, _ = entity_reader(ListOffsetsRequest, ListOffsetsRequest)(bytes(out), 0)
            self.ends = {0: 0 if request.topics[0].partitions[0].timestamp == EARLIEST else 1}
            return await super().send(call)
        call.encode(out, replica_fetch.HIGHEST)
        ((topic_id, (asked,)),) = decode_request(replica_fetch.HIGHEST, bytes(out), 0).topics
        await self.clock.sleep(1)
        if topic_id != self.topic_id:
            one = FetchPartitionResponse(0, int(ErrorCode.unknown_topic_id))
        else:
            records = build_batch([Record(0, 0, None, b"value")]) if asked.fetch_offset == 0 else b""
            one = FetchPartitionResponse(0, records=bytes(records), log_start_offset=0)
        return FetchResponse([(topic_id, [one])])


async def test_an_unexpected_error_does_not_end_the_reading_of_remote_log_metadata() -> None:
    leading = Leading()
    leading.errors = [RuntimeError("a bug")]
    leading.reading.follow()
    known = leading.reading.want(0).known
    await leading.clock.run(RETRY_MS + 10)
    assert known.done()
    assert len(leading.taken) == 1
    await leading.reading.stop()


async def test_a_remote_log_metadata_topic_that_was_deleted_and_made_at_once_is_read_by_its_new_id() -> None:
    """Between two reads: the reader never finds itself without a partition, and would go on with the id that it has."""
    leading = Leading()
    leading.reading.follow()
    leading.reading.want(0)
    await leading.clock.run(10)
    leading.topic_id = UUID(int=8)
    leading.reading.follow()
    assert leading.forgotten == [0]
    known = leading.reading.want(0).known
    await leading.clock.run(2 * RETRY_MS)
    assert known.done()
    assert len(leading.taken) == 2
    await leading.reading.stop()
