"""The rules by themselves, where a whole coordinator seldom gets to (Kafka's TransactionCoordinator)."""

from __future__ import annotations

import pytest

from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction import rules
from coordinator.transaction.transaction_metadata import (
    LAST_EPOCH_FOR_CLIENTS,
    TV_0,
    TV_1,
    TV_2,
    TransactionMetadata,
    TransactionState,
)
from protocol.errors import ProducerFenced

NOW = 1_700_000_000_000
PRODUCER = ProducerEpoch(7, 3)
P = ("topic", 0)


def empty(producer: ProducerEpoch = PRODUCER) -> TransactionMetadata:
    return TransactionMetadata(
        producer.producer_id, producer.producer_epoch, 60_000, TransactionState.EMPTY, frozenset(), NOW
    )


def test_an_unknown_id_takes_any_producer_that_names_itself() -> None:
    answer = rules.init_producer_id(None, 60_000, PRODUCER, lambda: 100, TV_2, NOW)
    assert (answer.producer_id, answer.producer_epoch, answer.state) == (100, 0, TransactionState.EMPTY)


def test_another_producer_that_names_itself_is_fenced() -> None:
    with pytest.raises(ProducerFenced):
        rules.init_producer_id(empty(), 60_000, ProducerEpoch(8, 3), lambda: 100, TV_2, NOW)


def test_the_last_epoch_for_clients_may_be_used() -> None:
    producer = ProducerEpoch(7, LAST_EPOCH_FOR_CLIENTS)
    assert rules.add_partitions(empty(producer), producer, {P}, TV_2, NOW) is not None


def test_the_epoch_kept_for_the_coordinator_is_no_clients() -> None:
    producer = ProducerEpoch(7, LAST_EPOCH_FOR_CLIENTS + 1)
    with pytest.raises(ProducerFenced):
        rules.add_partitions(empty(producer), producer, {P}, TV_2, NOW)


def test_no_partitions_begin_a_transaction_and_are_in_one_that_is_open() -> None:
    begun = rules.add_partitions(empty(), PRODUCER, (), TV_2, NOW)
    assert begun is not None
    assert (begun.state, begun.partitions) == (TransactionState.ONGOING, frozenset())
    assert rules.add_partitions(begun, PRODUCER, (), TV_2, NOW) is None


def test_partitions_that_are_there_already_change_nothing() -> None:
    ongoing = rules.add_partitions(empty(), PRODUCER, {P}, TV_2, NOW)
    assert ongoing is not None
    assert rules.add_partitions(ongoing, PRODUCER, {P}, TV_2, NOW) is None
    both = rules.add_partitions(ongoing, PRODUCER, {P, ("topic", 1)}, TV_2, NOW)
    assert both is not None
    assert both.partitions == {P, ("topic", 1)}


@pytest.mark.parametrize(("server_version", "written"), [(TV_0, TV_0), (TV_1, TV_0), (TV_2, TV_2)])
def test_a_fence_is_written_as_of_a_client_of_transactions_v2_or_of_an_old_one(
    server_version: int, written: int
) -> None:
    ongoing = rules.add_partitions(empty(), PRODUCER, {P}, TV_0, NOW)
    assert ongoing is not None
    fenced = rules.fence(ongoing, server_version, NOW)
    assert (fenced.state, fenced.client_version) == (TransactionState.PREPARE_ABORT, written)
    assert fenced.producer_epoch == PRODUCER.producer_epoch + 1


def test_partitions_are_written_by_topic_both_ascending() -> None:
    partitions = [("y", 17), ("x", 0), ("y", 1)]
    written = empty().with_partitions(partitions, TV_2, NOW).to_log().partitions
    assert written == (("x", (0,)), ("y", (1, 17)))
