"""How `lake` finds topics, with a cluster and ingests of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.kafka import ClusterAddress, ClusterError
from odradek_pipeline.lake import job as job_module
from odradek_pipeline.lake.ingest import IngestServices
from odradek_pipeline.lake.job import LakeJob
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.progress import Reporter
from odradek_pipeline.lake.settings import LakeSettings


class FakeAdmin:
    """Answers the given looks in turn, the last one again and again; an error is raised."""

    def __init__(self, *looks: set[str] | ClusterError) -> None:
        self._looks = list(looks)

    def topics(self) -> set[str]:
        look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(look, ClusterError):
            raise look
        return look

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(names, "id")


class FakeIngest:
    """Has nothing to do, as a topic with nothing to infer a schema from."""

    started: list[str]
    made: dict[str, FakeIngest]
    appeared_later = False

    def __init__(self, around: IngestServices, topic: str) -> None:
        self._topic = topic
        self.made[topic] = self
        self.failure = None

    def stop(self) -> None:
        pass

    def prepare(self) -> bool:
        self.started.append(self._topic)
        return False


class FakeQuery:
    """Runs for the given number of looks at it; its only batch is there when it has ended."""

    def __init__(self, looks: int, records: int) -> None:
        self._looks = looks
        progress = SimpleNamespace(batchId=0, numInputRows=records, batchDuration=1, sources=[SimpleNamespace()])
        progress.sources[0].endOffset = progress.sources[0].latestOffset = None
        self._progress = progress

    @property
    def isActive(self) -> bool:
        self._looks -= 1
        return self._looks >= 0

    @property
    def lastProgress(self) -> SimpleNamespace | None:
        return self._progress if self._looks < 0 else None

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        pass


class TwoQueries(FakeIngest):
    """As a Parquet topic: rows and dead letters have a query each, and the rows' is looked at once before its end."""

    counted: list[tuple[int, int]]

    def prepare(self) -> bool:
        return True

    def start(self) -> list[FakeQuery]:
        return [FakeQuery(1, records=3), FakeQuery(0, records=1)]

    def check_topic(self, topic_id: str | None) -> None:
        pass

    def progressed(self, part: int, progress: Any) -> None:
        self.counted.append((part, progress.numInputRows))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, str], list[str]]]:
    FakeIngest.started = []
    FakeIngest.made = {}
    monkeypatch.setattr(job_module, "TransactionalIngest", FakeIngest)
    monkeypatch.setattr(job_module, "LONGEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(job_module, "TICK_SECONDS", 0.0)

    def _run(*looks: set[str] | ClusterError, **rest: Any) -> tuple[dict[str, str], list[str]]:
        given: dict[str, Any] = {"available_now": True, "pattern": "a.*", "attempts": 3, "group": ""} | rest
        settings = LakeSettings(ClusterAddress("nowhere:1"), "/nowhere", **given)
        around = IngestServices(cast(Any, None), cast(Any, None), cast(Any, FakeAdmin(*looks)), settings, _nothing)
        return dict(LakeJob(around, Reporter()).run().failed), FakeIngest.started

    return _run


def _nothing(topic: str, records: int, dead_letters: int, unknown: int, fields: Mapping[str, int]) -> None:
    raise AssertionError("nothing was written")


def test_a_pattern_is_for_the_whole_name(run: Callable[..., Any]) -> None:
    assert run({"a", "ab", "ba"}) == ({}, ["a", "ab"])


def test_a_pattern_that_no_topic_has_is_told(run: Callable[..., Any]) -> None:
    with structlog.testing.capture_logs() as events:
        assert run({"b"}) == ({}, [])
    assert events == [{"event": "no topic matches the pattern", "log_level": "warning", "pattern": "a.*"}]


def test_brokers_that_do_not_answer_are_asked_again(run: Callable[..., Any]) -> None:
    down = ClusterError("nobody there")
    assert run(down, down, {"a"}) == ({}, ["a"])
    with pytest.raises(LakeError, match="the brokers do not answer: nobody there"):
        run(down)


def test_topics_that_appear_later_are_read_from_their_beginning(run: Callable[..., Any]) -> None:
    with pytest.raises(LakeError):
        run({"a"}, {"a", "ab"}, ClusterError("the end"), available_now=False, attempts=1, discover_interval=0.0)
    assert {topic: ingest.appeared_later for topic, ingest in FakeIngest.made.items()} == {"a": False, "ab": True}


def test_topics_that_would_share_a_table_of_a_catalog_are_refused(run: Callable[..., Any]) -> None:
    with pytest.raises(LakeError, match="would share the table a_b"):
        run({"a.b", "a-b"}, table_format="iceberg", catalog="c")


def test_what_a_query_did_right_before_its_end_is_counted(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    TwoQueries.counted = []
    monkeypatch.setattr(job_module, "TransactionalIngest", TwoQueries)
    assert run({"a"}) == ({}, [])
    assert sorted(TwoQueries.counted) == [(0, 3), (1, 1)]


class Failing(TwoQueries):
    """Its query fails with words that say nothing, and `losses` are what the looks at the offsets find in turn."""

    losses: list[str | ClusterError | None]

    def start(self) -> list[FakeQuery]:
        query = FakeQuery(0, records=0)
        query.exception = lambda: RuntimeError("anything at all")  # type: ignore[assignment]
        return [query]

    def lost(self) -> str | None:
        look = self.losses.pop(0)
        if isinstance(look, ClusterError):
            raise look
        return look


def test_a_query_that_fails_over_lost_records_is_told_by_offsets_and_not_by_its_words(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "TransactionalIngest", Failing)
    Failing.losses = [None, ClusterError("away"), "partition 0 begins at offset 4, and 2 is the next to read", None]
    ((topic, told),) = run({"a"}, attempts=9)[0].items()
    assert topic == "a"
    assert "(retention, or DeleteRecords): partition 0 begins at offset 4, and 2 is the next to read. What" in told
    assert Failing.losses == [None], "it is not tried again"
    assert run({"a"}, attempts=1)[0] == {"a": "topic a: gave up after 1 attempts: anything at all"}
    assert run({"a"}, attempts=1, allow_data_loss=True)[0] == {
        "a": "topic a: gave up after 1 attempts: anything at all"
    }
