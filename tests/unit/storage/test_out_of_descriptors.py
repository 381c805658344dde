"""A process that may open no more files refuses what needs one, and goes on once it may."""

import errno

import pytest

from protocol.errors import KafkaStorage
from storage.memory_files import MemoryFileSystem
from storage.partition_log import PartitionLog
from tests.unit.storage.support import Rig, append, contents


@pytest.fixture
def rig() -> Rig:
    return Rig()


def idle(rig: Rig) -> PartitionLog:
    """A log with a record that nobody has used since the start."""
    append(rig.log())
    return rig.restart()


def refuse(rig: Rig) -> MemoryFileSystem:
    def hook(operation: str, path: str) -> None:
        if operation == "open":
            raise OSError(errno.EMFILE, "too many open files", path)

    assert isinstance(rig.fs, MemoryFileSystem)
    rig.fs.hook = hook
    return rig.fs


def test_an_append_to_an_idle_log_may_be_tried_again(rig: Rig) -> None:
    log = idle(rig)
    fs = refuse(rig)
    with pytest.raises(KafkaStorage):
        append(log)
    fs.hook = None
    assert append(log).first_offset == 1
    assert len(contents(log)) == 2


def test_an_append_that_needs_a_new_segment_may_be_tried_again(rig: Rig) -> None:
    log = rig.log()
    append(log)
    log.config = rig.config.__class__(segment_bytes=80)
    fs = refuse(rig)
    with pytest.raises(KafkaStorage):
        append(log)
    fs.hook = None
    assert append(log).first_offset == 1
    assert len(contents(log)) == 2


def test_a_read_of_an_idle_log_may_be_tried_again(rig: Rig) -> None:
    log = idle(rig)
    fs = refuse(rig)
    with pytest.raises(KafkaStorage):
        contents(log)
    fs.hook = None
    assert len(contents(log)) == 1
