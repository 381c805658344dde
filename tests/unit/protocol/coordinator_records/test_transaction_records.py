"""Records of `__transaction_state` below transaction.version 1, held to bytes that Kafka 4.1 wrote."""

from __future__ import annotations

import pytest

from protocol.coordinator_records.transaction_records import TRANSACTION_LOG, TRANSACTION_LOG_0, TransactionLogValue

ONGOING = TransactionLogValue(0, 0, 60_000, 1, (("a", (0,)),), 0x1A209AC70F3, 0x1A209AC70F3)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (
            "0000000000000000000000000000ea6000ffffffff000001a209ac7063ffffffffffffffff",
            TransactionLogValue(0, 0, 60_000, 0, None, 0x1A209AC7063),
        ),
        (
            "0000000000000000000000000000ea6001000000010001610000000100000000000001a209ac70f3000001a209ac70f3",
            ONGOING,
        ),
        (
            "0000000000000000000000000000ea600400000000000001a209ac7136000001a209ac70f3",
            ONGOING._replace(status=4, partitions=(), last_update_ms=0x1A209AC7136),
        ),
    ],
    ids=["empty", "ongoing", "committed"],
)
def test_version_0_is_read_and_written_as_kafka_writes_it(encoded: str, value: TransactionLogValue) -> None:
    data = bytes.fromhex(encoded)
    assert TRANSACTION_LOG_0.decode_value(data) == value
    assert TRANSACTION_LOG_0.encode_value(value) == data
    assert TRANSACTION_LOG.decode_value(data) == value


def test_version_0_has_no_place_for_what_is_tagged_in_version_1() -> None:
    value = ONGOING._replace(previous_producer_id=7, next_producer_id=8, client_version=2)
    assert TRANSACTION_LOG_0.decode_value(TRANSACTION_LOG_0.encode_value(value)) == ONGOING
    assert TRANSACTION_LOG.decode_value(TRANSACTION_LOG.encode_value(value)) == value
