"""Remote storage in a folder: what each store is held to, and the layout of Kafka's LocalTieredStorage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from protocol.remote_storage.store import RemoteStoreError
from storage.files import OsFileSystem
from storage.tier.folder import FolderStore
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.protocol.remote_storage.stores import LOG, TRANSACTIONS, check_store, data, segment


def test_a_folder_on_a_disk_is_a_store(tmp_path: Path) -> None:
    check_store(FolderStore(OsFileSystem(), str(tmp_path / "remote")))


def test_a_folder_has_the_layout_of_local_tiered_storage(tmp_path: Path) -> None:
    FolderStore(OsFileSystem(), str(tmp_path)).copy(segment(1, 42), data(TRANSACTIONS))
    folder = tmp_path / "kafka-tiered-storage/some-topic.a_b-3-AAAAAAAAAAcAAAAAAAAAAA"
    names = "000000000000000000" + "42-AAAAAAAAAAEAAAAAAAAAAQ"
    suffixes = (".index", ".leader_epoch_checkpoint", ".log", ".snapshot", ".timeindex", ".txnindex")
    assert sorted(path.name for path in folder.iterdir()) == [names + suffix for suffix in suffixes]
    assert (folder / f"{names}.log").read_bytes() == LOG


def test_a_copy_in_a_folder_survives_a_power_failure() -> None:
    fs = MemoryFileSystem()
    store = FolderStore(fs, "/somewhere/remote")
    store.check()
    store.copy(segment(1), data())
    fs.crash(Unsynced.LOST)
    assert store.read(segment(1), 0, len(LOG)) == LOG


class Removing(MemoryFileSystem):
    """In which the log of a segment is removed as soon as it was listed."""

    def listdir(self, path: str) -> list[str]:
        found = super().listdir(path)
        for name in found:
            if name == GONE:
                self.unlink(f"{path}/{name}")
        return found


GONE = "00000000000000000000-AAAAAAAAAAEAAAAAAAAAAQ.log"


def test_a_listing_of_objects_goes_on_behind_what_is_removed_meanwhile() -> None:
    store = FolderStore(Removing(), "/remote")
    store.check()
    gone, stays = (replace(segment(number, 100 * number - 100), txn_index_empty=True) for number in (1, 2))
    store.copy(gone, data())
    store.copy(stays, data())
    assert {one.name for one in store.objects()} == {*store.names(gone)[1:], *store.names(stays)}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RemoteStoreError, match=r"file/remote cannot be used as remote storage"):
        FolderStore(OsFileSystem(), str(tmp_path / "file/remote")).check()
