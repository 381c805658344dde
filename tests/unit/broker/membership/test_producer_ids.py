"""Producer ids are handed out once, over concurrent callers, nodes and restarts."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from broker.membership.producer_ids import PREFETCH_BELOW, ProducerIds
from controller import producer_ids
from controller.local import LocalController
from controller.producer_ids import BLOCK_SIZE
from controller.quorum.metadata_batches import MetadataLogError
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from protocol.errors import CoordinatorLoadInProgress
from tests.doubles.clock import settle
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.doubles.metadata_log import MemoryMetadataLog
from tests.unit.broker.admin_rig import Rig


class Controller:
    """Gives out blocks; with `waits`, they are safe when `log` is synced."""

    def __init__(self, *, waits: bool = False) -> None:
        self.log = MemoryMetadataLog(waits=waits)
        self._local = LocalController(self.log, EMPTY, self._publish, cast(Any, None))

    async def _publish(self, _delta: MetadataDelta, _image: MetadataImage) -> None:
        """Nothing follows the image."""

    async def allocate(self) -> range:
        return await self._local.submit(lambda image: producer_ids.decide(image, 1, 5))


async def next_id(ids: ProducerIds) -> int:
    while not ids.is_ready:
        await ids.ready()
    return ids.take()


async def test_ids_rise_from_zero_without_gaps_over_blocks() -> None:
    ids = ProducerIds(Controller().allocate)
    assert [await next_id(ids) for _ in range(2 * BLOCK_SIZE + 5)] == list(range(2 * BLOCK_SIZE + 5))


@pytest.mark.long
async def test_concurrent_callers_over_two_nodes_never_share_an_id() -> None:
    controller = Controller()
    nodes = [ProducerIds(controller.allocate), ProducerIds(controller.allocate)]
    given = await asyncio.gather(*(next_id(nodes[n % 2]) for n in range(5 * BLOCK_SIZE)))
    assert len(set(given)) == 5 * BLOCK_SIZE


async def test_a_restart_starts_a_new_block() -> None:
    rig = await Rig.open()
    assert await next_id(rig.node.coordinators.producer_ids) == 0
    await rig.node.metadata.close()
    assert await next_id((await Rig.open(rig.fs)).node.coordinators.producer_ids) == BLOCK_SIZE


@pytest.mark.parametrize("unsynced", Unsynced)
async def test_no_id_is_given_twice_over_power_failures(unsynced: Unsynced) -> None:
    """Each comes while the next block is being allocated, or right after."""
    fs = MemoryFileSystem()
    given: list[int] = []
    for failure in range(6):
        ids = (await Rig.open(fs)).node.coordinators.producer_ids
        given += [await next_id(ids) for _ in range(BLOCK_SIZE - 50)]
        for _ in range(failure):
            await asyncio.sleep(0)
        if failure == 5:
            await settle()
            given += [ids.take() for _ in range(BLOCK_SIZE)]
        fs.crash(unsynced, seed=failure)
    assert len(set(given)) == len(given)


async def test_no_id_is_there_before_its_block_is_durable() -> None:
    controller = Controller(waits=True)
    ids = ProducerIds(controller.allocate)
    ready = asyncio.ensure_future(ids.ready())
    await settle()
    assert (ready.done(), ids.is_ready) == (False, False)
    with pytest.raises(CoordinatorLoadInProgress):
        ids.take()
    controller.log.sync()
    await ready
    assert ids.take() == 0
    assert len(controller.log.batches) == 1


async def test_the_next_block_is_asked_for_before_the_last_one_is_used_up() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    for _ in range(BLOCK_SIZE - PREFETCH_BELOW):
        await next_id(ids)
    await settle()
    assert len(controller.log.batches) == 1
    await next_id(ids)
    await settle()
    assert len(controller.log.batches) == 2
    controller.log.fail()  # what was allocated is usable without the log
    assert [await next_id(ids) for _ in range(BLOCK_SIZE)][-1] == 2 * BLOCK_SIZE - PREFETCH_BELOW


async def test_who_cannot_wait_is_refused_only_until_a_block_is_there() -> None:
    """EndTxn takes an id when its producer's epochs are used up, and may be the first to need one since the start."""
    ids = ProducerIds(Controller().allocate)
    with pytest.raises(CoordinatorLoadInProgress):
        ids.take()
    await settle()
    assert [ids.take() for _ in range(BLOCK_SIZE)] == list(range(BLOCK_SIZE))
    await settle()
    assert ids.take() == BLOCK_SIZE  # allocated ahead


async def test_an_allocation_that_fails_is_told_in_the_log() -> None:
    """Otherwise clients would get COORDINATOR_LOAD_IN_PROGRESS without a trace of the reason."""
    controller = Controller()
    controller.log.fail()
    ids = ProducerIds(controller.allocate)
    with capture_logs() as lines:
        for _ in range(2):
            with pytest.raises(CoordinatorLoadInProgress):
                ids.take()
            await settle()
    assert [(line["event"], line["log_level"]) for line in lines] == [("producer ids not allocated", "error")] * 2


async def test_a_controller_that_fails_is_asked_again() -> None:
    controller = Controller(waits=True)
    ids = ProducerIds(controller.allocate)
    for _ in range(2):
        refused = asyncio.ensure_future(next_id(ids))
        await settle()
        controller.log.refuse()
        with pytest.raises(MetadataLogError):
            await refused
    given = asyncio.ensure_future(next_id(ids))
    await settle()
    controller.log.sync()
    assert await given == 0


async def test_a_client_that_goes_away_leaves_the_allocation_to_the_others() -> None:
    controller = Controller(waits=True)
    ids = ProducerIds(controller.allocate)
    gone, other = asyncio.ensure_future(next_id(ids)), asyncio.ensure_future(next_id(ids))
    await settle()
    gone.cancel()
    await settle()
    controller.log.sync()
    assert await other == 0
    assert len(controller.log.batches) == 1
