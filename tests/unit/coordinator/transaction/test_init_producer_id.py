"""InitProducerId: each state, who is fenced, and epochs that are used up."""

from __future__ import annotations

import pytest

from coordinator.runtime.outcome import CoordinatorRecord, Outcome, ProducerEpoch
from coordinator.transaction.transaction_metadata import LAST_EPOCH_FOR_CLIENTS, TV_0, TV_1, TV_2
from protocol.coordinator_records.record_schema import record_id
from protocol.coordinator_records.transaction_records import TRANSACTION_LOG
from protocol.errors import ConcurrentTransactions, InvalidPidMapping, InvalidTxnTimeout, ProducerFenced
from tests.unit.coordinator.transaction.rig import Rig

P = ("topic", 0)


async def test_each_call_bumps_the_epoch() -> None:
    rig = await Rig().started()
    first = rig.producer()
    assert first.producer_epoch == 0
    assert rig.producer() == ProducerEpoch(first.producer_id, 1)
    assert rig.producer("other").producer_id != first.producer_id
    await rig.crashed()
    assert rig.producer() == ProducerEpoch(first.producer_id, 2)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_invalid_transaction_timeout_makes_nothing(timeout_ms: int) -> None:
    rig = await Rig().started()
    with pytest.raises(InvalidTxnTimeout):
        rig.init(timeout_ms=timeout_ms).result()
    assert rig.state() == "none"


@pytest.mark.parametrize("version", [TV_0, TV_2])
async def test_init_producer_id_fences_and_aborts_an_open_transaction_first(version: int) -> None:
    rig = await Rig().started()
    old = rig.producer()
    rig.add(old, P, version=version).result()
    rig.partitions.refuse = {P}
    with pytest.raises(ConcurrentTransactions):
        rig.producer()
    assert rig.state() == "PrepareAbort"
    with pytest.raises(ConcurrentTransactions):
        rig.producer()
    with pytest.raises(ProducerFenced if version == TV_0 else ConcurrentTransactions):
        rig.end(old, commit=True, version=version).result()
    rig.partitions.release()
    rig.clock.advance(1000)
    assert rig.state() == "CompleteAbort"
    assert [partition.value for partition in rig.partitions.log(P).records] == [False]
    assert rig.producer().producer_epoch == 2
    assert rig.counts.fenced == 1


async def test_a_prepared_transaction_ends_as_it_was_decided() -> None:
    rig = await Rig().started()
    old = rig.producer()
    rig.add(old, P).result()
    rig.partitions.refuse = {P}
    bumped = rig.end(old, commit=True).result()
    assert rig.state() == "PrepareCommit"
    for expected in (None, old, bumped, ProducerEpoch(7, 0)):
        with pytest.raises(ConcurrentTransactions):
            rig.producer(expected=expected)
    rig.partitions.release()
    rig.clock.advance(1000)
    assert rig.state() == "CompleteCommit"
    assert rig.producer(expected=bumped) == ProducerEpoch(old.producer_id, 2)


async def test_kip_360_a_producer_that_names_its_id_and_epoch_may_repeat_its_request() -> None:
    """KIP-360."""
    rig = await Rig().started()
    first = rig.producer()
    second = rig.producer(expected=first)
    assert second.producer_epoch == 1
    assert rig.producer(expected=first) == second
    third = rig.producer(expected=second)
    with pytest.raises(ProducerFenced):
        rig.producer(expected=first)
    with pytest.raises(ProducerFenced):
        rig.producer(expected=ProducerEpoch(first.producer_id + 1, 2))
    assert rig.producer() == ProducerEpoch(first.producer_id, 3)
    with pytest.raises(ProducerFenced):
        rig.producer(expected=third)


async def test_a_repeat_is_not_known_any_more_after_a_restart() -> None:
    """As in Kafka, whose log lacks the epoch before the last."""
    rig = await Rig().started()
    first = rig.producer()
    rig.producer(expected=first)
    await rig.crashed()
    with pytest.raises(ProducerFenced):
        rig.producer(expected=first)


def exhausted(rig: Rig) -> ProducerEpoch:
    """The last epoch that a client may have."""
    rig.producer()
    first = rig.metadata()
    assert first is not None
    last = first._replace(producer_epoch=LAST_EPOCH_FOR_CLIENTS - 1)
    record = CoordinatorRecord(TRANSACTION_LOG, "tx", last.to_log())
    rig.runtime.write(0, lambda _: Outcome((record,))).result()
    return rig.producer()


async def test_a_new_producer_id_follows_the_last_producer_epoch() -> None:
    rig = await Rig().started()
    last = exhausted(rig)
    fresh = rig.producer()
    assert fresh.producer_id != last.producer_id
    assert fresh.producer_epoch == 0
    metadata = rig.metadata()
    assert metadata is not None
    assert metadata.previous_producer_id == last.producer_id


async def test_who_had_the_last_epoch_may_name_itself_once_more() -> None:
    rig = await Rig().started()
    last = exhausted(rig)
    with pytest.raises(ProducerFenced):
        rig.producer(expected=ProducerEpoch(last.producer_id, 7))
    fresh = rig.producer(expected=last)
    assert (fresh.producer_id == last.producer_id, fresh.producer_epoch) == (False, 0)
    assert rig.producer(expected=last) == fresh


async def test_the_last_epoch_is_fenced_by_the_one_kept_for_the_coordinator() -> None:
    rig = await Rig().started()
    last = exhausted(rig)
    rig.add(last, P).result()
    with pytest.raises(ConcurrentTransactions):
        rig.producer()
    assert rig.partitions.log(P).epochs == {last.producer_id: LAST_EPOCH_FOR_CLIENTS + 1}
    assert rig.producer().producer_epoch == 0


async def test_the_transaction_of_the_last_epoch_ends_with_a_new_id() -> None:
    """KIP-890."""
    rig = await Rig().started()
    last = exhausted(rig)
    rig.add(last, P).result()
    after = rig.end(last, commit=True).result()
    assert (after.producer_id == last.producer_id, after.producer_epoch) == (False, 0)
    assert rig.state() == "CompleteCommit"
    assert rig.end(last, commit=True).result() == after
    assert rig.partitions.log(P).epochs == {last.producer_id: LAST_EPOCH_FOR_CLIENTS + 1}
    rig.add(after, P).result()
    with pytest.raises(InvalidPidMapping):  # the next transaction has begun
        rig.end(last, commit=True).result()
    assert rig.end(after, commit=True).result() == ProducerEpoch(after.producer_id, 1)


@pytest.mark.parametrize("version", [TV_0, TV_2])
async def test_the_log_goes_on_saying_which_transactions_its_client_has(version: int) -> None:
    """As a Kafka 4.1 writes ClientTransactionVersion."""
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P, version=version).result()
    rig.end(producer, commit=True, version=version).result()
    rig.producer()
    assert rig.state() == "Empty"
    last = rig.log.records()[-1]
    assert last.value is not None
    assert TRANSACTION_LOG.decode_value(last.value).client_version == version


@pytest.mark.parametrize(("level", "version"), [(TV_0, 0), (TV_1, 1), (TV_2, 1)])
async def test_below_transaction_version_1_the_records_have_no_tagged_fields(level: int, version: int) -> None:
    """Flink's KafkaTransactionLog, for one, reads no other."""
    rig = await Rig().started()
    rig.server_version = level
    producer = rig.producer()
    rig.add(producer, P, version=level).result()
    rig.end(producer, commit=True, version=level).result()
    values = [record.value for record in rig.log.records() if record.value is not None]
    assert [record_id(value) for value in values] == [version] * 4
    await rig.crashed()
    assert rig.state() == "CompleteCommit"
