"""Metadata transactions (KIP-868): decisions larger than a batch count as a whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controller import transactions
from controller.transactions import TransactionalAppends
from metadata.delta import ImageLoader
from metadata.image import MetadataImage
from protocol.errors import InvalidRequest
from protocol.metadata.topics import ConfigRecord
from tests.doubles.metadata_log import MemoryMetadataLog


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MOST_IN_A_BATCH", 3)


def configs(count: int, value: str = "1") -> list[Any]:
    return [ConfigRecord(resource_type=2, resource_name="t", name=str(number), value=value) for number in range(count)]


def loaded(log: MemoryMetadataLog) -> tuple[MetadataImage, bool]:
    """The image of what is in the log, and whether it ends within a transaction."""
    loader = ImageLoader()
    for batch in log.batches:
        loader.load(batch)
    loader.publish(0, 1, 0)
    return loader.image, loader.in_transaction


def kinds(log: MemoryMetadataLog) -> list[list[str]]:
    return [[type(record).__name__.removesuffix("Record") for record in batch] for batch in log.batches]


def test_a_small_decision_is_one_batch() -> None:
    log = MemoryMetadataLog()
    assert TransactionalAppends(log).append(configs(3)) == 2
    assert kinds(log) == [["Config"] * 3]


def test_a_large_one_is_begun_and_ended() -> None:
    log = MemoryMetadataLog()
    assert TransactionalAppends(log).append(configs(7)) == 8
    assert kinds(log) == [["BeginTransaction"], ["Config"] * 3, ["Config"] * 3, ["Config"], ["EndTransaction"]]
    image, is_open = loaded(log)
    assert (len(image.configs.of(2, "t")), is_open) == (7, False)


def test_a_transaction_cut_short_is_aborted_by_the_next_append() -> None:
    log = MemoryMetadataLog(waits=True)
    appends = TransactionalAppends(log)
    log.append([])  # whatever was there before
    log.sync()
    appends.append(configs(7))
    log._durable = 3  # of six batches
    log.refuse()
    appends.refused()
    assert loaded(log)[1]
    appends.append(configs(1, "2"))
    image, is_open = loaded(log)
    assert (dict(image.configs.of(2, "t")), is_open) == ({"0": "2"}, False)


@pytest.mark.parametrize("durable", [1, 6])
def test_what_is_all_there_or_not_at_all_needs_no_abort(durable: int) -> None:
    log = MemoryMetadataLog(waits=True)
    appends = TransactionalAppends(log)
    log.append([])
    log.sync()
    appends.append(configs(7))
    log._durable = durable
    log.refuse()
    appends.refused()
    appends.append(configs(1, "2"))
    assert "AbortTransaction" not in str(kinds(log))


def test_a_log_that_ends_within_a_transaction_is_gone_on_with() -> None:
    log = MemoryMetadataLog()
    TransactionalAppends(log).append(configs(7))
    del log.batches[2:]
    _, is_open = loaded(log)
    assert is_open
    TransactionalAppends(log, is_open=is_open).append(configs(1, "2"))
    assert dict(loaded(log)[0].configs.of(2, "t")) == {"0": "2"}


def test_a_transaction_with_a_batch_that_the_log_refuses_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryMetadataLog()
    appends, append = TransactionalAppends(log), log.append

    def refusing(records: Sequence[Any]) -> int:
        if any(record.value == "huge" for record in records if isinstance(record, ConfigRecord)):
            raise InvalidRequest("too large")
        return append(records)

    monkeypatch.setattr(log, "append", refusing)
    with pytest.raises(InvalidRequest):
        appends.append([*configs(5), *configs(2, "huge")])
    assert loaded(log)[1]
    appends.append(configs(1, "2"))
    image, is_open = loaded(log)
    assert (dict(image.configs.of(2, "t")), is_open) == ({"0": "2"}, False)


def too_large(appends: TransactionalAppends, log: MemoryMetadataLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a transaction whose second batch the log does not take."""
    append = log.append

    def refusing(records: Sequence[Any]) -> int:
        if isinstance(records[0], ConfigRecord):
            raise InvalidRequest("too large")
        return append(records)

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", refusing)
        with pytest.raises(InvalidRequest):
            appends.append(configs(7))


def test_a_begin_that_there_was_no_room_for_needs_no_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryMetadataLog(waits=True)
    appends = TransactionalAppends(log)
    too_large(appends, log, monkeypatch)
    log.refuse()
    appends.refused()
    appends.append(configs(1))
    assert kinds(log) == [["Config"]]


def test_an_abort_that_there_was_no_room_for_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryMetadataLog(waits=True)
    appends = TransactionalAppends(log)
    too_large(appends, log, monkeypatch)
    log.sync()
    for _ in range(2):
        appends.append(configs(1))
        log.refuse()
        appends.refused()
    appends.append(configs(1))
    assert kinds(log) == [["BeginTransaction"], ["AbortTransaction"], ["Config"]]


def test_of_two_transactions_that_there_was_no_room_for_the_first_may_be_cut_short() -> None:
    log = MemoryMetadataLog(waits=True)
    appends = TransactionalAppends(log)
    for _ in range(2):
        appends.append(configs(4))
    log.sync(2)
    log.refuse()
    appends.refused()
    appends.append(configs(1))
    assert kinds(log) == [["BeginTransaction"], ["Config"] * 3, ["AbortTransaction"], ["Config"]]
