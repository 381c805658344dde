"""The checker of histories: it finds each kind of anomaly that is put into a sound history, and none in a sound one."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.history_check import Anomaly, find_problems

Event = dict[str, Any]
TOPIC = "t"


class World:
    """A broker that does nothing wrong, its producers and consumers, and the events that they make."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events: list[Event] = [{"type": "began", "ends": {}}]
        self.logs: list[Event] = [
            {
                "type": "log",
                "topic": TOPIC,
                "partition": index,
                "start": 0,
                "end": 0,
                "compacted": False,
                "records": [],
                "markers": [],
            }
            for index in range(2)
        ]
        self.number = 0

    def write(self, producer: int, count: int, *, transactional: bool = False, retries: int = 0) -> None:
        """A batch of a producer: id -1 for one without sequence numbers, whose first attempts are not written."""
        log = self.logs[self.random.randrange(2)]
        sequence = -1 if producer < 0 else self.sequences(producer, log)
        at = self.number
        records = [{"digest": f"d{self.next()}", "timestamp": at} for _ in range(count)]
        offset = log["end"]
        for attempt in range(retries + 1):
            name = f"a{self.next()}"
            sent = {
                "type": "sent",
                "id": name,
                "client": f"c{producer}",
                "connection": f"{producer}.{attempt}",
                "topic": TOPIC,
                "partition": log["partition"],
                "producer_id": producer,
                "epoch": 0,
                "sequence": sequence,
                "records": records,
            }
            self.events.append(sent)
            if producer >= 0 or attempt == retries:
                acked = {"type": "acked", "id": name, "topic": TOPIC, "partition": log["partition"], "offset": offset}
                self.events.append(acked)
        for place, record in enumerate(records):
            log["records"].append(
                {
                    "offset": offset + place,
                    "digest": record["digest"],
                    "producer_id": producer,
                    "epoch": 0,
                    "sequence": -1 if sequence < 0 else sequence + place,
                    "transactional": transactional,
                }
            )
        log["end"] += count

    def sequences(self, producer: int, log: Event) -> int:
        return sum(record["producer_id"] == producer for record in log["records"])

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        for log in self.logs:
            log["markers"].append({"offset": log["end"], "producer_id": producer, "committed": committed})
            log["end"] += 1

    def read(self, *, committed: bool) -> None:
        log = self.random.choice(self.logs)
        if not log["end"]:
            return
        first = self.random.randrange(log["end"])
        after = self.random.randint(first + 1, log["end"])
        records = [one for one in log["records"] if first <= one["offset"] < after]
        if committed:
            records = [one for one in records if not one["transactional"] or self.outcome(log, one)]
        read = [{"offset": one["offset"], "digest": one["digest"]} for one in records]
        self.events.append(
            {
                "type": "read",
                "topic": TOPIC,
                "partition": log["partition"],
                "from": first,
                "to": after,
                "committed": committed,
                "records": read,
            }
        )

    @staticmethod
    def outcome(log: Event, record: Event) -> bool:
        ends = [
            one["committed"]
            for one in log["markers"]
            if one["producer_id"] == record["producer_id"] and one["offset"] > record["offset"]
        ]
        return bool(ends and ends[0])

    def next(self) -> int:
        self.number += 1
        return self.number

    def history(self) -> list[Event]:
        return copy.deepcopy([*self.events, *self.logs])


def sound(seed: int, steps: int = 25) -> World:
    world = World(seed)
    for _ in range(steps):
        match world.random.randrange(5):
            case 0:
                world.write(-1, world.random.randint(1, 3), retries=world.random.randrange(3))
            case 1:
                world.write(world.random.choice((1, 2)), world.random.randint(1, 3), retries=world.random.randrange(3))
            case 2:
                world.write(7, world.random.randint(1, 3), transactional=True)
                world.end_transaction(7, committed=world.random.random() < 0.5)
            case _:
                world.read(committed=world.random.random() < 0.5)
    return world


def kinds(problems: list[Anomaly]) -> set[str]:
    return {problem.kind for problem in problems}


def log_with(history: list[Event], offset_of: Event) -> Event:
    return next(one for one in history if one["type"] == "log" and one["partition"] == offset_of["partition"])


def acknowledged(history: list[Event], **wanted: Any) -> list[tuple[Event, Event]]:
    """(sent, acked) of what was acknowledged."""
    sent = {one["id"]: one for one in history if one["type"] == "sent"}
    pairs = [(sent[one["id"]], one) for one in history if one["type"] == "acked"]
    return [pair for pair in pairs if all(pair[0][name] == value for name, value in wanted.items())]


SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=200)
def test_a_sound_history_has_no_problems(seed: int) -> None:
    assert find_problems(sound(seed).history()) == []


@given(SEEDS, st.sampled_from(["removed", "cut", "replaced"]))
def test_an_acknowledged_record_that_is_gone_is_lost(seed: int, how: str) -> None:
    world = sound(seed)
    world.write(-1, 2)
    history = world.history()
    _, acked = acknowledged(history)[-1]
    log = log_with(history, acked)
    log["records"] = [one for one in log["records"] if one["offset"] != acked["offset"]]
    if how == "cut":
        log["end"] = acked["offset"]
        log["records"] = [one for one in log["records"] if one["offset"] < acked["offset"]]
    elif how == "replaced":
        log["records"].append({**log_with(world.logs, acked)["records"][-1], "offset": acked["offset"], "digest": "x"})
    found = [one for one in find_problems(history) if one.kind == "lost"]
    assert (TOPIC, acked["partition"], acked["offset"]) in [(one.topic, one.partition, one.offset) for one in found]


@given(SEEDS)
def test_what_retention_or_compaction_removed_or_what_a_restore_took_is_not_lost(seed: int) -> None:
    world = sound(seed)
    for change in ({"compacted": True, "records": []}, {"start": 10**6, "end": 10**6, "records": []}):
        history = world.history()
        for log in history:
            if log["type"] == "log":
                log.update(change)
        assert "lost" not in kinds(find_problems(history))
    empty = {"records": [], "markers": [], "end": 0}
    restored = [*world.events, {"type": "restored"}, *({**log, **empty} for log in world.logs)]
    assert find_problems(restored) == []


@given(SEEDS)
def test_a_record_that_a_consumer_was_not_sent_is_lost(seed: int) -> None:
    world = sound(seed)
    world.write(1, 3)
    log = max(world.logs, key=lambda one: one["records"][-1]["offset"] if one["records"] else -1)
    last = log["records"][-1]
    world.events.append(
        {
            "type": "read",
            "topic": TOPIC,
            "partition": log["partition"],
            "from": last["offset"],
            "to": last["offset"] + 1,
            "committed": False,
            "records": [],
        }
    )
    found = find_problems(world.history())
    assert [(one.kind, one.offset) for one in found] == [("lost", last["offset"])]
    assert "was left out of what a consumer was sent" in found[0].text


@given(SEEDS, st.sampled_from([-1, 1]))
def test_a_record_that_is_there_twice_is_doubled(seed: int, producer: int) -> None:
    world = sound(seed)
    world.write(producer, 2, retries=1)
    history = world.history()
    _, acked = acknowledged(history, producer_id=producer)[-1]
    log = log_with(history, acked)
    again = next(one for one in log["records"] if one["offset"] == acked["offset"])
    log["records"].append({**again, "offset": log["end"]})
    log["end"] += 1
    found = find_problems(history)
    assert kinds(found) == {"doubled"}
    assert found[0].offset == log["end"] - 1


@pytest.mark.long
@given(SEEDS)
def test_one_batch_acknowledged_at_two_offsets_is_doubled(seed: int) -> None:
    world = sound(seed)
    world.write(1, 1, retries=1)
    history = world.history()
    _, acked = acknowledged(history, producer_id=1)[-1]
    acked["offset"] += 1
    assert "doubled" in kinds(find_problems(history))


@given(SEEDS, st.sampled_from([-1, 1]))
def test_two_batches_in_the_wrong_order_are_reordered(seed: int, producer: int) -> None:
    world = sound(seed)
    for _ in range(4):  # two of them go to one partition, whichever it is
        world.write(producer, 1)
    history = world.history()
    pairs = acknowledged(history, producer_id=producer)[-4:]
    partition = next(one for one in range(2) if sum(sent["partition"] == one for sent, _ in pairs) > 1)
    (_, first), (second_sent, second) = [pair for pair in pairs if pair[0]["partition"] == partition][:2]
    first["offset"], second["offset"] = second["offset"], first["offset"]
    log = log_with(history, first)
    by_offset = {one["offset"]: one for one in log["records"]}
    one, other = by_offset[first["offset"]], by_offset[second["offset"]]
    one["offset"], other["offset"] = other["offset"], one["offset"]
    found = find_problems(history)
    assert kinds(found) == {"reordered"}
    assert second_sent["records"][0]["digest"] in found[0].text


@given(SEEDS, st.booleans())
def test_an_aborted_or_open_record_that_was_read_is_named(seed: int, ended: bool) -> None:
    world = sound(seed)
    world.write(9, 1, transactional=True)
    log = next(one for one in world.logs if one["records"] and one["records"][-1]["producer_id"] == 9)
    record = log["records"][-1]
    if ended:
        world.end_transaction(9, committed=False)
    read = {
        "type": "read",
        "topic": TOPIC,
        "partition": log["partition"],
        "from": record["offset"],
        "to": record["offset"] + 1,
        "records": [{"offset": record["offset"], "digest": record["digest"]}],
    }
    uncommitted = [*world.events, {**read, "committed": False}, *world.logs]
    assert find_problems(uncommitted) == []
    found = find_problems([*world.events, {**read, "committed": True}, *world.logs])
    assert [(one.kind, one.offset) for one in found] == [("aborted", record["offset"])]
    assert ("was aborted" if ended else "was never committed") in found[0].text


def test_a_message_shows_the_record() -> None:
    world = World(1)
    world.write(-1, 1)
    history = world.history()
    history[1]["records"][0]["show"] = "7 = hello"
    log = log_with(history, history[1])
    log["records"], log["end"] = [], 0
    (problem,) = find_problems(history)
    place = f"{TOPIC}-{history[1]['partition']}"
    assert problem.text == f"7 = hello, acknowledged at offset 0 of {place}, is gone: the log ends at 0"


@pytest.mark.parametrize("event", [{"type": "acked", "id": "unknown"}, {"type": "another"}])
def test_events_that_belong_to_nothing_are_left_alone(event: Event) -> None:
    assert find_problems([event]) == []


def attempts(*made: tuple[str, str]) -> list[Event]:
    """A record of one producer without sequence numbers, sent on each connection, with `acked`, `failed` or nothing.

    What is acknowledged is written; so is what is called `failed after append`.
    """
    events: list[Event] = []
    log: Event = {"type": "log", "topic": TOPIC, "partition": 0, "start": 0, "compacted": False, "markers": []}
    records: list[Event] = []
    for number, (connection, outcome) in enumerate(made):
        place = {"id": str(number), "topic": TOPIC, "partition": 0}
        producer = {"client": "c", "connection": connection, "producer_id": -1, "epoch": -1, "sequence": -1}
        events.append({"type": "sent", **place, **producer, "records": [{"digest": "d", "timestamp": 1}]})
        if outcome == "acked":
            events.append({"type": "acked", **place, "offset": len(records)})
        elif outcome.startswith("failed"):
            events.append({"type": "failed", **place, "error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"})
        if outcome in ("acked", "failed after append"):
            records.append(
                {
                    "offset": len(records),
                    "digest": "d",
                    "producer_id": -1,
                    "epoch": -1,
                    "sequence": -1,
                    "transactional": False,
                }
            )
    return [*events, {**log, "end": len(records), "records": records}]


@pytest.mark.parametrize(
    ("made", "doubled"),
    [
        ([("1", "acked"), ("1", "acked")], False),  # two records with one content
        ([("1", "failed"), ("1", "acked")], False),
        ([("1", "failed after append"), ("1", "acked")], True),
        ([("1", "failed after append"), ("1", "failed after append")], True),
        ([("1", "failed after append")], False),
        ([("1", ""), ("2", "acked")], False),
        ([("1", "acked"), ("2", "acked")], True),  # the first answer was lost
        ([("1", "acked"), ("1", "acked"), ("2", "acked"), ("2", "acked")], True),
        ([("1", "failed"), ("1", "failed"), ("2", ""), ("3", "acked")], False),
    ],
)
def test_what_comes_again_after_an_error_or_on_another_connection_is_the_same_record(
    made: list[tuple[str, str]], doubled: bool
) -> None:
    assert kinds(find_problems(attempts(*made))) == ({"doubled"} if doubled else set())


def test_a_topic_that_was_deleted_has_lost_nothing_and_its_successor_has_its_own_records() -> None:
    before, after = attempts(("1", "acked"), ("1", "acked")), attempts(("1", "acked"))
    assert "lost" in kinds(find_problems([*before[:-1], *after]))
    assert find_problems([*before[:-1], {"type": "deleted", "topic": TOPIC}, *after]) == []


def test_a_record_that_was_read_and_gone_after_a_crash_is_not_taken_for_the_one_that_is_there_now() -> None:
    world = World(1)
    world.write(9, 1, transactional=True)
    log = next(one for one in world.logs if one["records"])
    read = {"type": "read", "topic": TOPIC, "partition": log["partition"], "from": 0, "to": 1, "committed": True}
    another = {**read, "records": [{"offset": 0, "digest": "another"}]}
    assert find_problems([another, *world.logs]) == []
    same = {**read, "records": [{"offset": 0, "digest": log["records"][0]["digest"]}]}
    assert kinds(find_problems([same, *world.logs])) == {"aborted"}
