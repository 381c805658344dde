"""Any file of a data folder may be damaged: the next start says so in an event of its own, and never meets a bug."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from controller.quorum.metadata_batches import MetadataLogError
from storage.folders.log_dirs import LogDirError
from tests.doubles.files import MemoryFileSystem
from tests.unit.broker.asking import append
from tests.unit.broker.crash_run import CONFIG, Run
from tests.unit.broker.rig import Rig
from tests.unit.broker.transactions import begun

SEEDS = range(6)


async def used(*, clean: bool) -> Rig:
    """A node with records, transactions and committed offsets, after a stop or a kill."""
    rig, run = Rig(config=CONFIG), Run(set())
    await rig.start()
    await rig.create("t")
    producer, client = await begun(rig), rig.connect()
    await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
    sequence = 0
    for number in range(3):
        await run._produce(client, b"plain %d" % number)
        sequence = await run._transact(producer, b"txn %d" % number, sequence, commit=number > 0)
        await run.commit_offset(client, number)
        await rig.clock.run(1000)
    if clean:
        await rig.stop()
    return rig


def files(fs: MemoryFileSystem, folder: str) -> Iterator[str]:
    for name in sorted(fs.listdir(folder)):
        path = f"{folder}/{name}"
        if fs.is_dir(path):
            yield from files(fs, path)
        elif fs.size(path):
            yield path


def damage(fs: MemoryFileSystem, path: str, rng: random.Random) -> None:
    """Overwrite some bytes, which no checksum of the file system notices."""
    inode = fs._inode(path)
    start = rng.randrange(len(inode.data))
    for at in range(start, min(start + rng.choice((1, 4, 30)), len(inode.data))):
        inode.data[at] = rng.randrange(256)
    inode.durable = bytes(inode.data)


@pytest.mark.long
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_start_on_a_damaged_file_is_refused_or_serves_and_is_no_bug(clean: bool, seed: int) -> None:
    structlog.reset_defaults()
    base = await used(clean=clean)
    for path in files(base.fs, "/data"):
        fs = base.fs.copy()
        damage(fs, path, random.Random(f"{seed} {path}"))
        rig = Rig(fs=fs, clock=base.clock, seed=5, config=CONFIG)
        with capture_logs() as lines:
            try:
                await rig.start()
            except (MetadataLogError, LogDirError) as refusal:
                assert path in str(refusal)
            else:
                async with asyncio.timeout(5):
                    await append(rig.connect(), "t", 0)
                await rig.clock.run(2000)
                await rig.stop()
        assert [line for line in lines if line.get("exc_info")] == [], path
        for line in lines:
            if line["event"] == "damaged data":
                assert path.startswith(line["path"].removesuffix(".log"))  # an index's segment is named by its log
                assert line["found"]
                assert line["done"]
