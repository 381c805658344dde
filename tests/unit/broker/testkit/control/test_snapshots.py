"""Snapshots of a whole node in memory: one moment comes back, and a restore that fails changes nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from broker.testkit.control.app import ENDPOINTS
from broker.testkit.control.endpoint import ControlError, Endpoint
from storage.files import read_file, write_file_atomically
from storage.folders.log_dirs import LogDirError
from tests.doubles.clock import settle
from tests.doubles.files import Fault
from tests.unit.broker.rig import Client, Rig

BY_PATH = {(one.method, one.path): one for one in ENDPOINTS}


async def call(rig: Rig, method: str, path: str, /, **values: Any) -> Any:
    endpoint: Endpoint = BY_PATH[method, path]
    answer = asyncio.ensure_future(endpoint.answer(rig.node, values))
    while not answer.done():
        await rig.clock.run(10)
    return await answer


async def produce(rig: Rig, topic: str, *values: str) -> None:
    records = [{"value": value} for value in values]
    await call(rig, "POST", "/topics/{topic}/records", topic=topic, records=records)


async def texts(rig: Rig, topic: str) -> list[str]:
    answer = await call(rig, "GET", "/topics/{topic}/records", topic=topic)
    return [record["value"] for record in json.loads(answer)["records"]]


def epoch(rig: Rig, topic: str) -> int:
    found = rig.node.cluster.cache.topic(topic)
    assert found is not None
    return found.partitions[0].leader_epoch


async def test_the_records_of_one_moment_come_back_and_epochs_and_producer_ids_do_not() -> None:
    async with Rig() as rig:
        await rig.create("t")
        await produce(rig, "t", "a", "b")
        await call(rig, "POST", "/snapshots", path="/s")
        await produce(rig, "t", "c")
        first_id = (await rig.node.metadata.allocate_producer_ids())[0]
        for _ in range(3):
            before = epoch(rig, "t")
            await call(rig, "POST", "/snapshots/restore", path="/s")
            assert await texts(rig, "t") == ["a", "b"]
            assert epoch(rig, "t") > before
            assert (await rig.node.metadata.allocate_producer_ids())[0] > first_id
            await produce(rig, "t", "d")
        assert rig.node.state.not_ready is None


async def test_requests_wait_while_a_snapshot_is_restored() -> None:
    async with Rig() as rig:
        await rig.create("t")
        await call(rig, "POST", "/snapshots", path="/s")
        client = rig.connect()
        client.send("list_groups", 4, states_filter=())
        await settle()
        assert len(client.replies()) == 1
        late: list[Client] = []

        def in_the_middle(operation: str, path: str) -> None:
            if operation == "rename" and not late:
                assert rig.node.state.not_ready == "restoring a snapshot"
                late.append(rig.connect())
                for one in (client, *late):
                    one.send("list_groups", 4, states_filter=())
                    assert one.replies() == []

        rig.fs.hook = in_the_middle
        await call(rig, "POST", "/snapshots/restore", path="/s")
        await settle()
        assert [len(one.replies()) for one in (client, *late)] == [1, 1]
        assert not client.transport.lost


@pytest.mark.parametrize(
    ("operation", "path"), [("copy", "/s/"), ("rename", "/data"), ("open", "/data"), ("listdir", "/data")]
)
async def test_a_restore_that_fails_leaves_what_was_there(operation: str, path: str) -> None:
    async with Rig() as rig:
        await rig.create("t")
        await produce(rig, "t", "a")
        await call(rig, "POST", "/snapshots", path="/s")
        await produce(rig, "t", "b")
        await rig.create("u")
        failures = 0
        for number in range(1, 12):
            rig.fs.inject(Fault(operation, number, path_part=path))
            try:
                await call(rig, "POST", "/snapshots/restore", path="/s")
            except OSError:
                failures += 1
            else:
                break
            finally:
                rig.fs._faults.clear()
            assert await texts(rig, "t") == ["a", "b"]
            assert rig.node.cluster.cache.topic("u") is not None
            assert rig.node.state.not_ready is None
        assert failures


async def test_a_snapshot_without_metadata_is_refused_and_leaves_what_was_there() -> None:
    async with Rig() as rig:
        await rig.create("t")
        await produce(rig, "t", "a")
        await call(rig, "POST", "/snapshots", path="/s")
        content = json.loads(read_file(rig.fs, "/s/snapshot.json"))
        content["folders"][0] = {
            name: entry for name, entry in content["folders"][0].items() if not name.startswith("__cluster_metadata")
        }
        write_file_atomically(rig.fs, "/s/snapshot.json", json.dumps(content).encode())
        with pytest.raises(ControlError, match="is damaged, and nothing was changed") as caught:
            await call(rig, "POST", "/snapshots/restore", path="/s")
        assert caught.value.parameter == "path"
        assert await texts(rig, "t") == ["a"]


async def test_a_snapshot_that_fails_leaves_nothing_and_disturbs_nobody() -> None:
    async with Rig() as rig:
        await rig.create("t")
        await produce(rig, "t", "a")
        for operation in ("link", "copy", "open", "rename"):
            rig.fs.inject(Fault(operation, 2, path_part="/data"))
            with pytest.raises(OSError, match="injected"):
                await call(rig, "POST", "/snapshots", path="/s")
            rig.fs._faults.clear()
            assert not rig.fs.exists("/s")
            assert not [name for name in rig.fs.listdir("/data") if name.endswith("-delete")]
            await produce(rig, "t", "b")


async def test_a_relative_path_is_refused() -> None:
    async with Rig() as rig:
        for method, path in (("POST", "/snapshots"), ("POST", "/snapshots/restore"), ("DELETE", "/snapshots")):
            with pytest.raises(ControlError, match="expected an absolute path") as caught:
                await call(rig, method, path, path="s")
            assert caught.value.parameter == "path"


@pytest.mark.parametrize(
    "path", ["/data", "/data/backups/monday", "/data/../data/b", "/x/../data//b/", "/", "LINK", "LINK/b"]
)
async def test_a_snapshot_in_log_dirs_is_refused_as_a_restore_would_remove_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/data")
    path = path.replace("LINK", str(tmp_path / "link"))
    async with Rig() as rig:
        await rig.create("t")
        await produce(rig, "t", "a")
        before = sorted(rig.fs.listdir("/data"))
        for method, endpoint in (("POST", "/snapshots"), ("POST", "/snapshots/restore"), ("DELETE", "/snapshots")):
            with pytest.raises(ControlError, match=r"a folder of log\.dirs") as caught:
                await call(rig, method, endpoint, path=path)
            assert caught.value.parameter == "path"
        assert sorted(rig.fs.listdir("/data")) == before
        assert await texts(rig, "t") == ["a"]


async def test_a_folder_beside_log_dirs_with_a_name_that_begins_alike_is_none_of_them() -> None:
    async with Rig() as rig:
        await call(rig, "POST", "/snapshots", path="/data-2")
        await call(rig, "POST", "/snapshots/restore", path="/data-2")


async def test_the_temporary_folder_of_a_snapshot_is_refused_if_log_dirs_is_where_it_would_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/data")
    async with Rig() as rig:
        with pytest.raises(ControlError, match=r"a folder of log\.dirs"):
            await call(rig, "POST", "/snapshots")


async def test_a_path_that_no_file_system_has_is_refused() -> None:
    async with Rig() as rig:
        for path in ("/s\0", "/\ud800"):
            with pytest.raises(ControlError) as caught:
                await call(rig, "POST", "/snapshots", path=path)
            assert caught.value.parameter == "path"


async def test_a_node_does_not_begin_with_a_snapshot_in_its_log_dirs() -> None:
    async with Rig() as rig:
        await call(rig, "POST", "/snapshots", path="/s")
        fs = rig.fs
    fs.unlink("/data/meta.properties")
    fs.mkdir("/data/s")
    fs.rename("/s", "/data/s")
    with pytest.raises(LogDirError, match=r"odradek\.snapshot: .* a folder of log\.dirs"):
        async with Rig(fs=fs, config={"odradek.snapshot": "/data/s"}):
            pass
    assert fs.exists("/data/s/snapshot.json")


async def test_a_restore_leaves_a_snapshot_that_an_earlier_release_let_lie_in_log_dirs() -> None:
    async with Rig() as rig:
        await call(rig, "POST", "/snapshots", path="/s")
        await call(rig, "POST", "/snapshots", path="/old")
        rig.fs.rename("/old", "/data/old")
        await call(rig, "POST", "/snapshots/restore", path="/s")
        assert rig.fs.exists("/data/old/snapshot.json")
