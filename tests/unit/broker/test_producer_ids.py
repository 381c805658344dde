"""Producer ids are handed out once, over concurrent callers, nodes and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from broker.metadata.local_store import LocalMetadataStore
from broker.metadata.producer_ids import BLOCK_SIZE, ProducerIds
from broker.metadata.store import MetadataStoreError
from structlog.testing import capture_logs

from protocol.errors import CoordinatorLoadInProgress
from storage.files import OsFileSystem
from storage.workers import ThreadWorkers
from tests.doubles.clock import settle
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.doubles.workers import LoopWorkers


async def opened(folder: Path) -> LocalMetadataStore:
    return await LocalMetadataStore.open(OsFileSystem(), str(folder), ThreadWorkers(asyncio.get_running_loop(), 1))


async def next_id(ids: ProducerIds) -> int:
    while not ids.is_ready:
        await ids.ready()
    return ids.take()


async def test_ids_rise_from_zero_without_gaps_over_blocks(tmp_path: Path) -> None:
    ids = ProducerIds(await opened(tmp_path))
    assert [await next_id(ids) for _ in range(2 * BLOCK_SIZE + 5)] == list(range(2 * BLOCK_SIZE + 5))


async def test_concurrent_callers_over_two_nodes_never_share_an_id(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    nodes = [ProducerIds(store), ProducerIds(store)]
    given = await asyncio.gather(*(next_id(nodes[n % 2]) for n in range(5 * BLOCK_SIZE)))
    assert len(set(given)) == 5 * BLOCK_SIZE


async def test_a_restart_starts_a_new_block(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    assert await next_id(ProducerIds(store)) == 0
    await store.close()
    assert await next_id(ProducerIds(await opened(tmp_path))) == BLOCK_SIZE


@pytest.mark.parametrize("unsynced", Unsynced)
async def test_no_id_is_given_twice_over_power_failures(unsynced: Unsynced) -> None:
    """Each comes while the next block is being claimed, or right after."""
    fs = MemoryFileSystem()
    given: list[int] = []
    for failure in range(6):
        ids = ProducerIds(await LocalMetadataStore.open(fs, "/", LoopWorkers()))
        given += [await next_id(ids) for _ in range(BLOCK_SIZE - 50)]
        for _ in range(failure):
            await asyncio.sleep(0)
        if failure == 5:
            await settle()
            given += [ids.take() for _ in range(BLOCK_SIZE)]
        fs.crash(unsynced, seed=failure)
    assert len(set(given)) == len(given)


async def test_no_id_is_there_before_its_block_is_claimed_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await LocalMetadataStore.open(MemoryFileSystem(), "/", LoopWorkers())
    commit, on_the_device = store.commit, asyncio.Event()

    async def held(expected: Mapping[str, int], puts: Mapping[str, bytes]) -> int:
        await on_the_device.wait()
        return await commit(expected, puts)

    monkeypatch.setattr(store, "commit", held)
    ids = ProducerIds(store)
    ready = asyncio.ensure_future(ids.ready())
    await settle()
    assert (ready.done(), ids.is_ready) == (False, False)
    with pytest.raises(CoordinatorLoadInProgress):
        ids.take()
    on_the_device.set()
    await ready
    assert ids.take() == 0


async def test_the_next_block_is_claimed_before_the_last_one_is_used_up(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    ids = ProducerIds(store)
    await next_id(ids)
    claimed = asyncio.Event()
    store.watch("/", lambda _: claimed.set())
    for _ in range(BLOCK_SIZE - 51):
        await next_id(ids)
    await claimed.wait()
    await store.close()  # what is claimed is usable without the store
    assert [await next_id(ids) for _ in range(BLOCK_SIZE)][-1] == 2 * BLOCK_SIZE - 51


async def test_who_cannot_wait_is_refused_only_until_a_block_is_claimed() -> None:
    """EndTxn takes an id when its producer's epochs are used up, and may be the first to need one since the start."""
    ids = ProducerIds(await LocalMetadataStore.open(MemoryFileSystem(), "/", LoopWorkers()))
    with pytest.raises(CoordinatorLoadInProgress):
        ids.take()
    await settle()
    assert [ids.take() for _ in range(BLOCK_SIZE)] == list(range(BLOCK_SIZE))
    await settle()
    assert ids.take() == BLOCK_SIZE  # claimed ahead


async def test_a_claim_that_fails_is_told_in_the_log() -> None:
    """Otherwise clients would get COORDINATOR_LOAD_IN_PROGRESS without a trace of the reason."""
    store = await LocalMetadataStore.open(MemoryFileSystem(), "/", LoopWorkers())
    await store.close()
    ids = ProducerIds(store)
    with capture_logs() as lines:
        for _ in range(2):
            with pytest.raises(CoordinatorLoadInProgress):
                ids.take()
            await settle()
    assert [(line["event"], line["error"]) for line in lines] == [
        ("producer ids not claimed", "the metadata store is closed")
    ] * 2


async def test_a_store_that_fails_is_asked_again(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    ids = ProducerIds(store)
    await store.close()
    for _ in range(2):
        with pytest.raises(MetadataStoreError):
            await next_id(ids)
