"""The checkpoint files of a log folder: written, read back, half written, damaged."""

from __future__ import annotations

import errno

import pytest

from protocol.topic_partition import TopicPartition
from storage.files import write_file_atomically
from storage.folders.log_checkpoints import OffsetCheckpoint
from tests.doubles.files import Fault, MemoryFileSystem
from tests.unit.storage.support import Rig, append, contents


@pytest.mark.parametrize("content", [b"1\n0\n", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"nonsense"])
def test_an_unreadable_checkpoint_counts_as_none(fs: MemoryFileSystem, content: bytes) -> None:
    rig = Rig(fs)
    append(rig.log())
    write_file_atomically(fs, "/data/recovery-point-offset-checkpoint", content)
    assert len(contents(rig.kill())) == 1


def test_checkpoints_written_are_read_back(fs: MemoryFileSystem) -> None:
    fs.mkdir("/data")
    checkpoint = OffsetCheckpoint(fs, "/data", "replication-offset-checkpoint")
    assert checkpoint.read() == {}
    offsets = {TopicPartition("a-b", 0): 5, TopicPartition("c", 12): 1 << 40}
    checkpoint.write(lambda: offsets)
    assert checkpoint.read() == offsets


def _half_written(fs: MemoryFileSystem) -> OffsetCheckpoint:
    """It had partition 0 alone; partition 1 came in with a write that failed after the file had its name."""
    fs.mkdir("/data")
    checkpoint = OffsetCheckpoint(fs, "/data", "recovery-point-offset-checkpoint")
    checkpoint.write(lambda: {TopicPartition("t", 0): 5})
    fs.inject(Fault("fsync_dir", 1, errno.ENOSPC))
    with pytest.raises(OSError):
        checkpoint.write(lambda: {TopicPartition("t", 0): 5, TopicPartition("t", 1): 9})
    return checkpoint


def test_after_a_checkpoint_was_half_written_what_it_had_before_is_written_again(fs: MemoryFileSystem) -> None:
    checkpoint = _half_written(fs)
    before = {TopicPartition("t", 0): 5}
    checkpoint.write(lambda: before)
    assert checkpoint.read() == before


def test_a_half_written_checkpoint_tells_a_partition_that_it_may_have(fs: MemoryFileSystem) -> None:
    checkpoint = _half_written(fs)
    fs.inject(Fault("rename", 1, errno.ENOSPC))
    with pytest.raises(OSError):
        checkpoint.write(lambda: {TopicPartition("t", 0): 5})
    assert TopicPartition("t", 1) in checkpoint


def test_a_log_start_checkpointed_survives_and_one_past_the_end_starts_anew(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    for _ in range(4):
        append(log)
    log.increment_log_start_offset(3)
    rig.manager.checkpoint_log_start_offsets()
    log = rig.kill()
    assert (log.log_start_offset, log.log_end_offset) == (3, 4)
    write_file_atomically(fs, "/data/log-start-offset-checkpoint", b"0\n1\nt 0 10\n")
    log = rig.kill()
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
