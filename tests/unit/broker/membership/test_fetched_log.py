"""The end of the metadata log as an observer fetches it: commitment, divergence, damage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.membership.metadata_copy import FetchedLog
from controller.quorum.metadata_batches import MetadataLogError, OpenBatch, control_batch, encode_values
from protocol.metadata.brokers import KRaftVersionRecord, LeaderChangeMessage
from protocol.metadata.topics import ConfigRecord


def record(name: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="t", name=name, value="1")


def batch(offset: int, epoch: int, *names: str) -> bytes:
    made = OpenBatch(offset)
    assert made.add(encode_values([record(name) for name in names]))
    return bytes(made.close(epoch, 1000 + offset))


def taken(log: FetchedLog, high_watermark: int) -> list[str]:
    return [each.name for found in log.take_committed(high_watermark) for each in found.records]


def test_only_what_is_below_the_high_watermark_is_taken() -> None:
    log = FetchedLog()
    log.append(batch(0, 1, "a", "b") + batch(2, 1, "c"))
    assert (log.end_offset, log.last_epoch) == (3, 1)
    assert taken(log, 1) == []
    assert taken(log, 2) == ["a", "b"]
    assert (log.committed_end, log.committed_epoch) == (2, 1)
    assert taken(log, 2) == []
    assert taken(log, 9) == ["c"]
    assert (log.end_offset, log.committed_end) == (3, 3)


def test_a_batch_that_is_cut_off_comes_with_the_next_fetch() -> None:
    log, whole = FetchedLog(), batch(0, 1, "a") + batch(1, 1, "b")
    log.append(whole[:-1])
    assert log.end_offset == 1
    log.append(batch(1, 1, "b"))
    assert taken(log, 2) == ["a", "b"]


def test_a_fetch_that_begins_within_a_batch_takes_the_rest_of_it() -> None:
    log = FetchedLog(1, 1)
    log.append(batch(0, 1, "known", "new"))
    assert taken(log, 2) == ["new"]


def test_what_was_fetched_twice_counts_once() -> None:
    log = FetchedLog()
    log.append(batch(0, 1, "a"))
    log.append(batch(0, 1, "a") + batch(1, 1, "b"))
    assert taken(log, 2) == ["a", "b"]


@pytest.mark.parametrize(
    ("epoch", "end_offset", "left"),
    [(1, 1, ["a"]), (1, 2, ["a", "b"]), (1, 9, ["a", "b"]), (2, 3, ["a", "b", "c"]), (3, 9, ["a", "b", "c"])],
)
def test_where_the_leader_diverges_what_is_not_committed_is_dropped(
    epoch: int, end_offset: int, left: list[str]
) -> None:
    log = FetchedLog()
    log.append(batch(0, 1, "a") + batch(1, 1, "b") + batch(2, 2, "c"))
    log.truncate(epoch, end_offset)
    assert taken(log, 9) == left
    log.append(batch(len(left), 5, "z"))
    assert taken(log, 9) == ["z"]


@pytest.mark.parametrize(("epoch", "end_offset"), [(2, 1), (1, 2)])
def test_what_is_committed_is_never_taken_back(epoch: int, end_offset: int) -> None:
    log = FetchedLog(2, 2)
    log.append(batch(2, 2, "a"))
    with pytest.raises(MetadataLogError, match="the controllers have lost what was committed"):
        log.truncate(epoch, end_offset)
    assert log.committed_end == 2


def test_what_the_quorum_says_of_itself_is_kept_for_copies() -> None:
    log = FetchedLog()
    records: list[Any] = [
        LeaderChangeMessage(version=0, leader_id=1, voters=(), granting_voters=()),
        KRaftVersionRecord(version=0, k_raft_version=1),
    ]
    log.append(bytes(control_batch(records, 0, 1, 0)) + batch(2, 1, "a"))
    assert taken(log, 3) == ["a"]
    assert list(log.quorum_records.values()) == records[1:]
    assert (log.kraft_version, FetchedLog().kraft_version) == (1, 0)


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (batch(1, 1, "a"), "offset 0 is missing before 1"),
        (damaged(batch(0, 1, "a"), 70), "damaged on its way"),
        (damaged(batch(0, 1, "a"), 16), "damaged on its way"),
    ],
)
def test_what_cannot_be_the_log_is_refused(data: bytes, why: str) -> None:
    log = FetchedLog()
    with pytest.raises(MetadataLogError, match=why):
        log.append(data)
    assert log.end_offset == 0


def test_records_of_a_newer_kafka_are_refused() -> None:
    log, made = FetchedLog(), OpenBatch(0)
    assert made.add([b"\x01\x7f\x00"])
    log.append(bytes(made.close(1, 0)))
    with pytest.raises(MetadataLogError, match="metadata record type 127 is not known"):
        list(log.take_committed(1))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=12), st.data())
def test_committed_records_are_those_of_the_leaders_log_in_order(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """A model: leaders append, commit some, and may be followed by others that keep at least what was committed."""
    leader: list[tuple[int, str]] = []
    log, got, committed, epoch = FetchedLog(), list[str](), 0, 1
    for number, (what, count) in enumerate(steps):
        if what == 1:
            leader += [(epoch, f"{number}.{index}") for index in range(count)]
        elif what == 2:
            committed = min(len(leader), committed + count)
        else:
            keep = data.draw(st.integers(committed, len(leader)))
            del leader[keep:]
            epoch += 1
        fetch(log, leader, data.draw(st.integers(0, 3)))
        got += taken(log, committed)
    fetch(log, leader, len(leader))
    got += taken(log, committed)
    assert got == [name for _, name in leader[:committed]]


def fetch(log: FetchedLog, leader: list[tuple[int, str]], most: int) -> None:
    """What a fetch brings: where the logs diverge, or records."""
    while True:
        end_of_epoch = max((at + 1 for at, (epoch, _) in enumerate(leader) if epoch <= log.last_epoch), default=0)
        epoch_there = leader[end_of_epoch - 1][0] if end_of_epoch else 0
        if log.end_offset and (epoch_there < log.last_epoch or end_of_epoch < log.end_offset):
            log.truncate(epoch_there, end_of_epoch)
            continue
        break
    for at in range(log.end_offset, min(len(leader), log.end_offset + most)):
        log.append(batch(at, leader[at][0], leader[at][1]))
