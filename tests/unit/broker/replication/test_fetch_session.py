"""Incremental fetch sessions: KIP-227's rules on ids, epochs, what is answered, and eviction."""

from __future__ import annotations

import random
from collections.abc import Sequence
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.replication import fetch_session_cache
from broker.replication.fetch_session import (
    INITIAL_EPOCH,
    FetchContext,
    FullFetch,
    Incremental,
    SessionError,
    Sessionless,
    Target,
)
from broker.replication.fetch_session_cache import EVICTION_MS, FINAL_EPOCH, FetchSessionCache
from protocol import uuids
from protocol.produce_fetch.fetch_response import FetchPartitionResponse
from tests.doubles.clock import ManualClock


def target(topic: str, partition: int = 0, offset: int = 0) -> Target:
    return Target((topic, partition), topic, offset, 1000, -1, -1)


def answer(records: bytes = b"", high_watermark: int = 0, error_code: int = 0) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        0, error_code=error_code, high_watermark=high_watermark, log_start_offset=0, records=records
    )


class Cache:
    def __init__(self, slots: int = 10) -> None:
        self.clock = ManualClock()
        self.sessions = FetchSessionCache(slots, self.clock.monotonic_ms, random.Random(1))

    def full(self, *topics: str) -> int:
        context = self.sessions.context(0, INITIAL_EPOCH, [target(topic) for topic in topics], [], False)
        error, session_id, _ = context.respond([(one, answer()) for one in context.targets])
        assert error == ErrorCode.none
        return session_id

    def incremental(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[Target] = (),
        forgotten: Sequence[tuple[str, int]] = (),
        by_id: bool = False,
    ) -> FetchContext:
        return self.sessions.context(session_id, epoch, list(wanted), list(forgotten), by_id)


def told(context: FetchContext, *answers: FetchPartitionResponse) -> list[str | None]:
    _, _, results = context.respond(list(zip(context.targets, answers, strict=True)))
    return [one.topic for one, _ in results]


def test_kip_227_a_full_fetch_opens_a_session_and_the_next_names_only_what_changed() -> None:
    cache = Cache()
    session_id = cache.full("a", "b")
    assert session_id > 0
    context = cache.incremental(session_id, 1)
    assert isinstance(context, Incremental)
    assert told(context, answer(), answer(high_watermark=5)) == ["b"]
    assert told(cache.incremental(session_id, 2), answer(), answer(high_watermark=5)) == []


def test_a_partition_that_gave_data_goes_behind_the_others() -> None:
    cache = Cache()
    session_id = cache.full("a", "b", "c")
    told(cache.incremental(session_id, 1), answer(b"x", 1), answer(), answer())
    assert [one.topic for one in cache.incremental(session_id, 2).targets] == ["b", "c", "a"]


def test_an_error_is_told_every_time_and_its_end_too() -> None:
    cache = Cache()
    session_id = cache.full("a")
    broken = answer(high_watermark=-1, error_code=3)
    assert told(cache.incremental(session_id, 1), broken) == ["a"]
    assert told(cache.incremental(session_id, 2), broken) == ["a"]
    assert told(cache.incremental(session_id, 3), answer()) == ["a"]
    assert told(cache.incremental(session_id, 4), answer()) == []


def test_partitions_are_added_updated_and_forgotten() -> None:
    cache = Cache()
    session_id = cache.full("a", "b")
    context = cache.incremental(session_id, 1, [target("c"), target("a", offset=7)], [("b", 0)])
    assert [(one.topic, one.fetch_offset) for one in context.targets] == [("a", 7), ("c", 0)]


def test_invalid_fetch_session_epoch_or_an_unknown_id_leaves_the_session_usable() -> None:
    cache = Cache()
    session_id = cache.full("a")
    wrong = cache.incremental(session_id, 9)
    assert isinstance(wrong, SessionError)
    assert wrong.error == ErrorCode.invalid_fetch_session_epoch
    unknown = cache.incremental(session_id + 1, 1)
    assert isinstance(unknown, SessionError)
    assert unknown.error == ErrorCode.fetch_session_id_not_found
    by_id = cache.incremental(session_id, 1, by_id=True)
    assert isinstance(by_id, SessionError)
    assert by_id.error == ErrorCode.fetch_session_topic_id_error
    assert isinstance(cache.incremental(session_id, 1), Incremental)


def test_an_answer_that_another_request_overtook_is_an_epoch_error() -> None:
    cache = Cache()
    session_id = cache.full("a")
    slow = cache.incremental(session_id, 1)
    cache.incremental(session_id, 2)
    error, _, results = slow.respond([(one, answer(b"x")) for one in slow.targets])
    assert (error, results) == (ErrorCode.invalid_fetch_session_epoch, [])


def test_the_epoch_wraps_to_one() -> None:
    cache = Cache()
    session_id = cache.full("a")
    cache.sessions._sessions[session_id].epoch = 2**31 - 1
    assert isinstance(cache.incremental(session_id, 2**31 - 1), Incremental)
    assert isinstance(cache.incremental(session_id, 1), Incremental)


def test_the_final_epoch_closes_a_session() -> None:
    cache = Cache()
    session_id = cache.full("a")
    assert isinstance(cache.incremental(session_id, FINAL_EPOCH, [target("a")]), Sessionless)
    assert len(cache.sessions) == 0


def test_a_session_without_partitions_is_closed() -> None:
    cache = Cache()
    session_id = cache.full("a")
    assert isinstance(cache.incremental(session_id, 1, forgotten=[("a", 0)]), Sessionless)
    assert len(cache.sessions) == 0


def test_a_full_cache_gives_no_session_to_a_newcomer() -> None:
    cache = Cache(slots=1)
    kept = cache.full("a")
    assert cache.full("b", "c") == 0
    assert isinstance(cache.incremental(kept, 1), Incremental)


def test_a_stale_session_gives_way() -> None:
    cache = Cache(slots=1)
    stale = cache.full("a", "b")
    cache.clock.advance(EVICTION_MS + 1)
    assert cache.full("c") > 0
    assert isinstance(cache.incremental(stale, 1), SessionError)
    assert cache.sessions.evictions == 1


def test_an_old_session_in_use_gives_way_to_one_that_is_no_smaller() -> None:
    cache = Cache(slots=1)
    old = cache.full("a", "b")
    cache.clock.advance(EVICTION_MS)
    assert isinstance(cache.incremental(old, 1), Incremental)
    cache.clock.advance(EVICTION_MS)
    assert cache.full("c") == 0
    assert cache.full("c", "d") > 0


def test_a_full_fetch_with_an_id_closes_that_session_first() -> None:
    cache = Cache(slots=1)
    session_id = cache.full("a")
    context = cache.sessions.context(session_id, INITIAL_EPOCH, [target("b")], [], False)
    assert isinstance(context, FullFetch)
    _, new_id, _ = context.respond([(one, answer()) for one in context.targets])
    assert new_id not in (0, session_id)


ZERO_ID = Target((uuids.ZERO, 0), None, 0, 1 << 20, -1, -1)
UNKNOWN_ID = Target((UUID(int=1), 0), None, 0, 1 << 20, -1, -1)
KNOWN_ID = Target((UUID(int=2), 0), "a", 0, 1 << 20, -1, -1)


@pytest.mark.parametrize("session_id", [2**31 - 1, 2_147_483_639, -1, -(2**31)])
def test_ids_of_no_session_are_unknown(session_id: int) -> None:
    for epoch, error in ((1, ErrorCode.fetch_session_id_not_found), (FINAL_EPOCH, ErrorCode.none)):
        assert Cache().sessions.context(session_id, epoch, [], [], False).respond([])[0] == error


def test_the_zero_topic_id_is_like_any_that_is_unknown() -> None:
    sessions = Cache().sessions
    both = [(KNOWN_ID, answer()), (ZERO_ID, answer(error_code=int(ErrorCode.unknown_topic_id)))]
    assert sessions.context(0, FINAL_EPOCH, [KNOWN_ID, ZERO_ID], [], True).respond(both) == (ErrorCode.none, 0, both)
    _, session_id, _ = sessions.context(0, INITIAL_EPOCH, [KNOWN_ID, ZERO_ID], [], True).respond(both)
    assert sessions.partitions_of(session_id) == [KNOWN_ID.key, ZERO_ID.key]
    assert sessions.context(session_id, 1, [UNKNOWN_ID], [ZERO_ID.key], True).respond([])[0] == ErrorCode.none
    assert sessions.partitions_of(session_id) == [KNOWN_ID.key, UNKNOWN_ID.key]
    emptied = sessions.context(session_id, 2, [], [KNOWN_ID.key, UNKNOWN_ID.key, ZERO_ID.key], True)
    assert emptied.respond([]) == (ErrorCode.none, 0, [])


def test_a_session_that_grows_without_an_end_is_over_and_its_client_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_session_cache, "MOST_IN_A_SESSION", 3)
    cache = Cache()
    session_id = cache.full("a", "b")
    same = [target("a", offset=1), target("b", offset=1)]
    assert isinstance(cache.incremental(session_id, 1, [*same, target("c")]), Incremental)
    assert isinstance(cache.incremental(session_id, 2, [target("d")], [("a", 0)]), Incremental)
    refused = cache.incremental(session_id, 3, [target("e")])
    assert refused.respond([]) == (ErrorCode.fetch_session_id_not_found, 0, [])
    assert cache.sessions.partitions == 0
    assert cache.full("a", "b", "c", "d") == 0  # served, without a session
    assert cache.full("a", "b", "c") > 0


def test_all_sessions_together_have_a_most_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session_cache, "MOST_IN_ALL", 4)
    cache = Cache()
    first, second = cache.full("a", "b"), cache.full("c")
    assert cache.full("d", "e") == 0
    assert cache.sessions.partitions == 3
    assert isinstance(cache.incremental(first, 1, [target("f")]), Incremental)
    refused = cache.incremental(second, 1, [target("g")])
    assert refused.respond([])[0] == ErrorCode.fetch_session_id_not_found
    assert cache.sessions.partitions == 3
    cache.clock.advance(EVICTION_MS + 1)
    assert cache.full("d", "e") > 0  # in the place of the unused one
