"""A standalone node's metadata: starts, stops, no room at the start, snapshots, and a power failure at any moment."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from controller.decision import Decision
from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from metadata.image import MetadataImage
from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.folders.strays import FolderState
from tests.doubles.clock import ManualClock
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.broker.membership import requests
from tests.unit.broker.membership.requests import EMPTY, Request, State
from tests.unit.broker.membership.standalone_process import Process, made_root, started
from tests.unit.storage.crashing import READING
from tests.unit.storage.support import NOW

STORY: list[Request] = [
    requests.create(("a", "b"), 2, "5"),
    requests.set_quotas("u", {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}),
    requests.take_producer_ids(),
    requests.delete(("a",)),
    requests.create(("a", "c"), 1, None),
    requests.set_credential("u", 4096),
    requests.grow("b", 4),
    requests.retain("b", "6"),
    requests.set_share_version(1),
    requests.take_producer_ids(),
    requests.delete(("b", "c")),
]


@pytest.fixture
def fs() -> FlakyFileSystem:
    made = FlakyFileSystem()
    made_root(made)
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def leaders(image: MetadataImage) -> dict[str, list[tuple[int, int]]]:
    """(leader, leader epoch) of each partition."""
    return {topic.name: [(found.leader, found.leader_epoch) for _, found in topic.in_order()] for topic in image.topics}


def node(image: MetadataImage) -> tuple[bool, int]:
    """Whether the node's broker is fenced, and its epoch."""
    broker = image.cluster.brokers[1]
    return broker.fenced, broker.epoch


# -- starts and stops


def test_a_new_cluster_has_its_broker_and_the_features_of_this_release(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = Process(fs, clock)
    process.open()
    assert process.metadata.is_new
    process.lead()
    fenced, epoch = node(process.cache.image)
    assert not fenced
    assert 0 < epoch < process.cache.image.offset
    assert process.cache.image.features["metadata.version"]
    assert process.cache.image is process.metadata.controller.image
    process.end()


def test_a_clean_stop_fences_the_broker_and_the_next_start_elects_it_again(
    fs: FlakyFileSystem, clock: ManualClock
) -> None:
    process = started(fs, clock)
    process.done(requests.create(("a",), 2, None))
    assert leaders(process.cache.image) == {"a": [(1, 0), (1, 0)]}
    epoch = node(process.cache.image)[1]
    process.stop()
    again = Process(fs, clock)
    again.open()
    assert not again.metadata.is_new
    assert leaders(again.cache.image) == {"a": [(-1, 1), (-1, 1)]}
    assert node(again.cache.image) == (True, epoch)
    assert replace(again.cache.image, timestamp_ms=0) == replace(process.metadata.controller.image, timestamp_ms=0)
    again.lead()
    assert leaders(again.cache.image) == {"a": [(1, 2), (1, 2)]}
    assert node(again.cache.image)[1] > epoch
    again.end()


def test_after_a_kill_leader_epochs_rise_by_two_as_well(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = started(fs, clock)
    process.done(requests.create(("a",), 1, None))
    process.end()
    again = started(fs, clock)
    assert leaders(again.cache.image) == {"a": [(1, 2)]}
    again.end()


def test_nothing_that_follows_the_image_is_told_of_the_shutdown(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = started(fs, clock)
    process.done(requests.create(("a",), 1, None))
    process.seen.clear()
    process.stop()
    assert not process.seen


# -- no room


def test_without_room_at_the_start_the_node_serves_what_it_has_and_refuses_changes(
    fs: FlakyFileSystem, clock: ManualClock
) -> None:
    process = started(fs, clock)
    process.done(requests.create(("a",), 1, None))
    process.stop()
    again = Process(fs, clock)
    again.open()
    found = again.metadata.controller.image
    fs.get_into(Trouble.ROOM, 1.0, 0)
    again.lead()
    assert not node(again.cache.image)[0]
    assert leaders(again.cache.image) == {"a": [(1, 1)]}  # as the log has it: a later epoch might come twice
    for request in (requests.create(("b",), 1, None), requests.delete(("a",)), requests.take_producer_ids()):
        with pytest.raises(MetadataLogError):
            again.done(request)
    again.finish(again.metadata.retry())
    assert again.metadata.controller.image is found
    fs.get_into(Trouble.NONE, 0.0, 0)
    again.finish(again.metadata.retry())
    again.done(requests.create(("b",), 1, None))
    assert leaders(again.cache.image) == {"a": [(1, 2)], "b": [(1, 0)]}
    assert again.cache.image is again.metadata.controller.image
    again.finish(again.metadata.retry())  # there is nothing left to do
    again.stop()


@pytest.mark.parametrize(("operation", "error"), [("pwrite", errno.ENOSPC), ("open", errno.EMFILE)])
def test_it_does_not_matter_for_which_step_of_the_start_there_is_no_room(
    fs: FlakyFileSystem, clock: ManualClock, operation: str, error: int
) -> None:
    """Such as the registration, when the node leads the log already."""
    process = started(fs, clock)
    process.done(requests.create(("a",), 1, None))
    process.stop()
    steps = 0
    while True:
        steps += 1
        again = Process(fs.copy(), clock)
        again.open()
        again.fs.inject(Fault(operation, steps, error, path_part="__cluster_metadata-0/"))
        again.lead()
        if again.metadata.controller.refusal is None:
            break
        assert leaders(again.cache.image) == {"a": [(1, 1)]}
        with pytest.raises(NoRoomError):
            again.finish(again.metadata.controller.submit(lambda _image: Decision([], None)))
        again.finish(again.metadata.retry())
        again.done(requests.create(("b",), 1, None))
        assert leaders(again.cache.image) == {"a": [(1, 2)], "b": [(1, 0)]}
        again.end()
    again.end()
    assert steps > 1


def test_a_stop_without_room_is_as_good_as_a_kill(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = started(fs, clock)
    process.done(requests.create(("a",), 1, None))
    fs.get_into(Trouble.ROOM, 1.0, 0)
    process.stop()
    fs.get_into(Trouble.NONE, 0.0, 0)
    again = started(fs, clock)
    assert leaders(again.cache.image) == {"a": [(1, 2)]}
    again.end()


def test_a_change_that_there_is_no_room_for_is_not_seen_and_later_ones_are_made(
    fs: FlakyFileSystem, clock: ManualClock
) -> None:
    process = started(fs, clock)
    fs.get_into(Trouble.ROOM, 1.0, 0)
    with pytest.raises(NoRoomError):
        process.done(requests.create(("a",), 1, None))
    assert process.shown == EMPTY
    fs.get_into(Trouble.NONE, 0.0, 0)
    process.done(requests.create(("b",), 1, None))
    assert list(process.shown.topics) == ["b"]
    assert not process.failures
    process.end()


def test_a_device_that_fails_ends_all_changes(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = started(fs, clock)
    fs.get_into(Trouble.DEVICE, 1.0, 0)
    with pytest.raises(MetadataLogError):
        process.done(requests.create(("a",), 1, None))
    fs.get_into(Trouble.NONE, 0.0, 0)
    with pytest.raises(MetadataLogError):
        process.done(requests.create(("a",), 1, None))
    assert process.shown == EMPTY
    assert len(process.failures) == 1
    process.stop()


# -- snapshots and folders of deleted topics


def grown(process: Process) -> None:
    """Make it write a snapshot."""
    before = process.metadata.log.snapshot_offset
    for number in range(100):
        process.done(requests.set_quotas("u", {"producer_byte_rate": float(number + 1)}))
        if process.metadata.log.snapshot_offset > before:
            return
    raise AssertionError("no snapshot was written")


def test_a_start_from_a_snapshot_has_the_same_image(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = started(fs, clock)
    for request in STORY[:7]:
        process.done(request)
    for _ in range(3):  # the older snapshots, and what they cover, go
        grown(process)
    process.done(requests.retain("b", "7"))
    before = process.metadata.controller.image
    process.end()
    again = Process(fs, clock)
    again.open()
    assert replace(again.cache.image, timestamp_ms=0) == replace(before, timestamp_ms=0)
    assert again.metadata.log.log.log_start_offset > 0
    again.end()


def test_leftover_folders_of_deleted_topics_are_known_until_a_snapshot_forgets_them(
    fs: FlakyFileSystem, clock: ManualClock
) -> None:
    process = started(fs, clock)
    process.done(requests.create(("a",), 1, None))
    old = process.cache.topic("a").id
    process.done(requests.delete(("a",)))
    process.done(requests.create(("a",), 1, None))
    new = process.cache.topic("a").id
    process.end()

    def standings(process: Process) -> list[FolderState]:
        a, b = TopicPartition("a", 0), TopicPartition("a", 1)
        metadata = process.metadata
        return [metadata.folder_state(key, topic_id) for key, topic_id in ((a, new), (a, old), (a, None), (b, new))]

    again = started(fs, clock)
    assert standings(again) == [FolderState.HOSTED, FolderState.DELETED, FolderState.HOSTED, FolderState.STRAY]
    synced: list[int] = []
    again.metadata.before_snapshot = lambda: synced.append(again.metadata.log.snapshot_offset)
    former = again.metadata.log.snapshot_offset
    grown(again)
    assert synced == [former]  # before the snapshot was there
    again.end()
    last = started(fs, clock)
    assert standings(last) == [FolderState.HOSTED, FolderState.STRAY, FolderState.HOSTED, FolderState.STRAY]
    last.end()


@pytest.mark.parametrize("error", [OSError(errno.EIO, "failed"), KafkaStorage("failed")])
def test_a_snapshot_is_not_written_before_what_it_forgets_is_safe(
    fs: FlakyFileSystem, clock: ManualClock, error: Exception
) -> None:
    process = started(fs, clock)

    def fail() -> None:
        raise error

    process.metadata.before_snapshot = fail
    with pytest.raises(AssertionError, match="no snapshot"):
        grown(process)
    assert process.metadata.log.snapshot_offset == 0
    process.done(requests.create(("a",), 1, None))
    process.stop()


def test_changes_go_on_if_nobody_can_tell_whether_a_snapshot_is_due(
    fs: FlakyFileSystem, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(fs, clock)

    def fail(_offset: int) -> bool:
        raise MetadataLogError("cannot be read")

    monkeypatch.setattr(process.metadata.log, "is_snapshot_due", fail)
    calls = [process.ask(requests.create((name,), 1, None)) for name in ("a", "b")]
    process.work()
    assert [call.answer.done() for call in calls] == [True, True]
    process.done(requests.create(("c",), 1, None))
    process.stop()


# -- power failures


class Point:
    """The disk before an operation, and the states of which one must be found on it."""

    def __init__(self, what: str, fs: MemoryFileSystem, possible: list[State]) -> None:
        self.what = what
        self.fs = fs
        self.possible = possible


def told(fs: FlakyFileSystem, clock: ManualClock) -> list[Point]:
    """The story, through a restart in the middle, with a point before each operation that changes something."""
    known = EMPTY
    asked: list[State] = []
    points: list[Point] = []
    strike = fs.hook

    def before(operation: str, path: str) -> None:
        if operation not in READING:
            points.append(Point(f"{operation} {path}", fs.copy(), [known, *asked]))

    fs.hook = before
    for half in (STORY[:6], STORY[6:]):
        process = started(fs, clock)
        for number in range(0, len(half), 2):
            pair = half[number : number + 2]
            calls = [process.ask(request) for request in pair]
            for request in pair:
                asked.append(request.apply(asked[-1] if asked else known))
            process.work()
            for call in calls:
                call.answer.result()
            known, asked = asked[-1], []
        process.stop()
    fs.hook = strike
    return points


@pytest.mark.long
@pytest.mark.parametrize("unsynced", list(Unsynced))
def test_whenever_the_power_fails_what_was_acknowledged_is_there_and_no_request_by_half(
    fs: FlakyFileSystem, clock: ManualClock, unsynced: Unsynced
) -> None:
    points = told(fs, clock)
    assert len(points) > 50
    assert any(len(point.possible) > 2 for point in points)
    for seed, point in enumerate(points):
        point.fs.crash(unsynced, seed)
        process = Process(point.fs, clock)
        process.open()
        assert process.shown in point.possible, point.what
        shown = process.shown
        process.end()
        point.fs.crash(Unsynced.LOST)  # what a start has shown stays, even if it was not the last
        again = started(point.fs, clock)
        assert again.shown == shown, point.what
        again.end()
