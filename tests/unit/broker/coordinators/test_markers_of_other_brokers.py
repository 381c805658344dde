"""Markers between brokers have the transaction's version, where the other broker takes it (KIP-1228)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2 import WriteTxnMarkersResponse
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)

from broker.coordinators.transaction_coordinator import TransactionMarkers
from broker.peers.call import Call
from coordinator.transaction.marker_sender import EndMarker, WriteMarker
from protocol.api.messages import request_class
from protocol.api.table import API_BY_NAME
from protocol.reader import entity_reader
from tests.doubles.clock import ManualClock, settle
from tests.unit.broker.cluster.three_brokers import ALL_PARTITIONS, TRANSACTION, Cluster, Producer
from tests.unit.controller.images import image_of, topic

API_KEY = API_BY_NAME["write_txn_markers"].key


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[EndMarker]:
    """The markers that reach leaders; only those of the leader's own coordinator know the records' epoch."""
    markers: list[EndMarker] = []
    make_writer = TransactionMarkers.marker_writer_here

    def marker_writer(self: TransactionMarkers, marker: EndMarker) -> WriteMarker:
        markers.append(marker)
        return make_writer(self, marker)

    monkeypatch.setattr(TransactionMarkers, "marker_writer_here", marker_writer)
    return markers


async def test_a_marker_of_transactions_v2_says_so_to_other_brokers_too(seen: list[EndMarker]) -> None:
    async with Cluster() as cluster:
        producer = Producer(cluster, await cluster.named(TRANSACTION, 1), 1)
        await producer.init()
        for index in range(ALL_PARTITIONS):
            assert await producer.send(index, b"v2") == "none"
        await producer.end(True)
        await cluster.clock.run(500)
    assert {marker.transaction_version for marker in seen} == {2}
    assert any(marker.records_epoch is None for marker in seen)


async def test_a_marker_of_transactions_v1_has_the_epoch_of_its_records(seen: list[EndMarker]) -> None:
    async with Cluster() as cluster:
        producer = Producer(cluster, await cluster.named(TRANSACTION, 1), 1)
        await producer.init()
        await producer.add(*range(ALL_PARTITIONS))
        for index in range(ALL_PARTITIONS):
            assert await producer.send(index, b"v1", version=11) == "none"
        await producer.end_old(True)
        await cluster.clock.run(500)
        assert {marker.transaction_version for marker in seen} == {0}
        assert {marker.producer_epoch for marker in seen} == {producer.epoch}
        for index in range(ALL_PARTITIONS):
            partition = cluster.nodes[cluster.leader(index)].node.replicas.find("t", index)
            assert partition.last_stable_offset == partition.log_end_offset


class OlderBroker:
    """Takes WriteTxnMarkers 1, as brokers before Kafka 4.4."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def send(self, call: Call[Any]) -> WriteTxnMarkersResponse:
        assert call.lowest == 1
        body = bytearray()
        call.encode(body, 1)
        request, size = entity_reader(request_class(API_KEY, 1), request_class(API_KEY, 1))(bytes(body), 0)
        assert size == len(body)
        self.asked.append(request)
        written = WritableTxnMarkerPartitionResult(partition_index=0, error_code=ErrorCode.none)
        topics = (WritableTxnMarkerTopicResult(name="t", partitions=(written,)),)
        return WriteTxnMarkersResponse(markers=(WritableTxnMarkerResult(producer_id=7, topics=topics),))


async def test_an_older_broker_gets_the_marker_without_the_version() -> None:
    older = OlderBroker()
    cache = SimpleNamespace(image=image_of(*topic("t", 1, [2])))
    brokers = SimpleNamespace(reach=lambda _id: older)
    host = SimpleNamespace(node_id=1, cache=cache, brokers=brokers, clock=ManualClock())
    markers = TransactionMarkers(cast(Any, host), cast(Any, None))
    written = markers.marker_writer(EndMarker(7, 3, 0, committed=True, transaction_version=2))("t", 0)
    assert written is not None
    await settle()
    assert written.result() is None
    (marker,) = older.asked[0].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
