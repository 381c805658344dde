"""The share coordinator of a node answers within `share.coordinator.write.timeout.ms`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.coordinators.hosted import PartitionCoordinatorLog
from metadata.topic_names import SHARE_GROUP_STATE_TOPIC_NAME
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import CoordinatorNotAvailable, KafkaError
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.share.members import CONFIG, GROUP, Shared

pytestmark = pytest.mark.asyncio

TIMEOUT_MS = 1500


async def test_share_coordinator_write_timeout_ms_ends_with_coordinator_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listen = PartitionCoordinatorLog.listen

    def without_commits(
        log: PartitionCoordinatorLog, advanced: Callable[[int], None], failed: Callable[[KafkaError], None]
    ) -> Callable[[], None]:
        holds = log._partition.topic == SHARE_GROUP_STATE_TOPIC_NAME
        return listen(log, (lambda _: None) if holds else advanced, failed)

    monkeypatch.setattr(PartitionCoordinatorLog, "listen", without_commits)
    async with Rig(config={**CONFIG, "share.coordinator.write.timeout.ms": str(TIMEOUT_MS)}) as rig:
        shared = await Shared(rig).started()
        states = rig.node.local.share.states
        asked = asyncio.ensure_future(states.initialize_at(SharePartitionKey(GROUP, shared.topic_id, 0), 1, 0))
        await settle()
        await rig.clock.run(TIMEOUT_MS - 100)
        assert not asked.done()
        await rig.clock.run(200)
        assert isinstance(asked.exception(), CoordinatorNotAvailable)
