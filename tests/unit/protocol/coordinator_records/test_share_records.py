"""The records of `__share_group_state` are what they were when read again."""

from __future__ import annotations

from uuid import UUID

import pytest

from protocol.coordinator_records.share_records import (
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    SharePartitionKey,
    ShareSnapshotValue,
    ShareUpdateValue,
    StateBatch,
)

KEY = SharePartitionKey("grüppe", UUID(int=3), 4)
BATCHES = (StateBatch(1, 2, 0, 1), StateBatch(3, 3, 4, 2))


@pytest.mark.parametrize("count", [-1, 7])
def test_round_trip(count: int) -> None:
    snapshot = ShareSnapshotValue(1, 2, 3, 4, 5, 6, BATCHES, count)
    update = ShareUpdateValue(1, 2, 3, BATCHES, count)
    assert SHARE_SNAPSHOT.decode_key(SHARE_SNAPSHOT.encode_key(KEY)) == KEY
    assert SHARE_UPDATE.encode_key(KEY)[:2] == b"\0\1"
    assert SHARE_SNAPSHOT.decode_value(SHARE_SNAPSHOT.encode_value(snapshot)) == snapshot
    assert SHARE_UPDATE.decode_value(SHARE_UPDATE.encode_value(update)) == update
