"""Which folder a new log goes to."""

from __future__ import annotations

from uuid import UUID, uuid4

from protocol import uuids
from protocol.topic_partition import TopicPartition
from storage.folders.log_dirs import LogDir, LogDirs
from storage.folders.new_logs import MOST_PREFERENCES, LogPlacement
from tests.doubles.files import MemoryFileSystem


def test_no_more_preferences_are_kept_than_allowed() -> None:
    dirs = LogDirs.open(MemoryFileSystem(lambda: 0), ["/one", "/two"], node_id=1, new_id=uuid4, now_ms=0)
    placement = LogPlacement(dirs)
    for index in range(MOST_PREFERENCES + 1):
        placement.prefer(TopicPartition("t", index), dirs.dirs[1])
    assert placement.choose(TopicPartition("t", 0)) is dirs.dirs[0]  # forgotten: the first of those with the fewest
    assert placement.choose(TopicPartition("t", 1)) is dirs.dirs[1]
    assert placement.choose(TopicPartition("t", 1)) is dirs.dirs[1], "until the log is there"
    placement.created(TopicPartition("t", 1))
    assert placement.choose(TopicPartition("t", 1)) is dirs.dirs[0]


def test_a_preference_that_is_renewed_is_the_newest_and_takes_no_other_ones_place() -> None:
    dirs = LogDirs.open(MemoryFileSystem(lambda: 0), ["/one", "/two"], node_id=1, new_id=uuid4, now_ms=0)
    placement = LogPlacement(dirs)
    for index in (*range(MOST_PREFERENCES), 1):
        placement.prefer(TopicPartition("t", index), dirs.dirs[1])
    assert placement.choose(TopicPartition("t", 0)) is dirs.dirs[1]
    for index in range(2):
        placement.prefer(TopicPartition("u", index), dirs.dirs[1])
    assert placement.choose(TopicPartition("t", 1)) is dirs.dirs[1]
    assert placement.choose(TopicPartition("t", 2)) is dirs.dirs[0], "older than that"


def test_a_folder_that_the_controller_has_assigned_is_taken_unless_another_is_preferred_or_it_has_failed() -> None:
    dirs = LogDirs.open(MemoryFileSystem(lambda: 0), ["/one", "/two"], node_id=1, new_id=uuid4, now_ms=0)
    placement = LogPlacement(dirs)
    one, two = dirs.dirs
    key, assigned = TopicPartition("t", 0), directory_id(two)
    assert placement.choose(key, assigned) is two
    for nobody in (None, UUID(int=1), uuid4()):
        assert placement.choose(key, nobody) is one
    placement.prefer(key, one)
    assert placement.choose(key, assigned) is one
    placement.created(key)
    two.failed = True
    assert placement.choose(key, assigned) is one


def directory_id(log_dir: LogDir) -> UUID:
    assert log_dir.directory_id is not None
    found = uuids.from_text(log_dir.directory_id)
    assert found is not None
    return found
