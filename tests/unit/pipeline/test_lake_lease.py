"""The lease of a topic on S3: one driver at a time, also after a crash, and a driver that lost it stops."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

pytest.importorskip("click", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.kafka import ClusterAddress
from odradek_pipeline.lake.lease import GIVE_UP_SECONDS, LEASE_SECONDS, Lease
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.settings import LakeSettings
from odradek_pipeline.s3 import Written, configuration, hadoop_path, is_s3
from odradek_pipeline.session import S3, SDK_BUNDLE, SessionOptions, coordinates, settings

PATH = "s3a://b/lake/@checkpoints/@leases/t"


class Bucket:
    """Objects that are written conditionally. `answers` False: what is written is, and the writer is told otherwise."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.objects: dict[str, Written] = {}
        self.answers = True
        self._writes = 0

    def clock(self) -> float:
        return self.now

    def read(self, path: str) -> Written | None:
        return self.objects.get(path)

    def write(self, path: str, text: str, instead_of: str | None) -> str | None:
        found = self.objects.get(path)
        if (None if found is None else found.tag) != instead_of:
            return None
        self._writes += 1
        self.objects[path] = Written(text, str(self._writes))
        return str(self._writes) if self.answers else None

    def lease(self, owner: str) -> Lease:
        return Lease(self, PATH, owner, self.clock)


def test_the_first_driver_gets_the_lease_and_a_second_one_is_refused_while_it_lives() -> None:
    bucket = Bucket()
    first, second = bucket.lease("first"), bucket.lease("second")
    assert first.acquire()
    assert not second.acquire()
    bucket.now += 15
    assert first.renew()
    with pytest.raises(LakeError, match="another driver writes this topic"):
        second.acquire()


def test_the_lease_of_a_driver_that_was_killed_is_taken_over_when_it_has_ended() -> None:
    """Nobody's wall clock counts: who looks measures how long it stays the same."""
    bucket = Bucket()
    killed, later = bucket.lease("killed"), bucket.lease("later")
    assert killed.acquire()
    assert not later.acquire()
    bucket.now += LEASE_SECONDS - 1
    assert not later.acquire()
    assert not killed.is_held, "it has given up before"
    bucket.now += 1
    assert later.acquire()
    assert not killed.renew(), "it was only suspended, and wakes"
    assert later.renew()


def test_of_two_drivers_that_take_over_at_once_one_gets_the_lease() -> None:
    bucket = Bucket()
    bucket.lease("killed").acquire()
    waiting = [bucket.lease("a"), bucket.lease("b")]
    assert [one.acquire() for one in waiting] == [False, False]
    bucket.now += LEASE_SECONDS
    assert waiting[0].acquire()
    with pytest.raises(LakeError):
        waiting[1].acquire()


def test_a_lease_that_was_given_back_is_free_at_once() -> None:
    bucket = Bucket()
    first = bucket.lease("first")
    assert first.acquire()
    first.release()
    assert not first.is_held
    assert bucket.lease("second").acquire()


def test_a_renewal_whose_answer_got_lost_has_happened() -> None:
    """A client that tries again is told that the condition does not hold: by its own first attempt."""
    bucket = Bucket()
    lease = bucket.lease("first")
    assert lease.acquire()
    bucket.answers = False
    assert lease.renew()
    bucket.answers = True
    assert lease.renew()


def test_a_lease_is_held_while_it_is_looked_up_whether_a_renewal_without_an_answer_has_happened() -> None:
    """The job asks in a thread of its own, and gives a topic up whose lease is not held."""
    bucket = Bucket()
    lease = bucket.lease("first")
    assert lease.acquire()
    held: list[bool] = []
    read = bucket.read

    def looked_at(path: str) -> Written | None:
        held.append(lease.is_held)
        return read(path)

    bucket.answers = False
    with patch.object(bucket, "read", looked_at):
        assert lease.renew()
    assert held == [True]


def test_a_renewal_that_failed_after_it_was_written_is_no_other_drivers() -> None:
    """S3 did not answer in time, say: the next renewal finds a tag that no answer has told."""
    bucket = Bucket()
    lease = bucket.lease("first")
    assert lease.acquire()
    write = bucket.write

    def unanswered(path: str, text: str, instead_of: str | None) -> str | None:
        write(path, text, instead_of)
        raise OSError("timed out")

    with patch.object(bucket, "write", unanswered), pytest.raises(OSError, match="timed out"):
        lease.renew()
    bucket.now += 15
    assert lease.renew()
    bucket.now += GIVE_UP_SECONDS - 1
    assert lease.is_held
    with patch.object(bucket, "write", lambda *_: None):  # a conflict, which S3 tells too if nothing was written
        assert lease.renew()
    bucket.now += 1
    assert not lease.is_held, "it was not renewed"


def test_a_driver_that_cannot_renew_stops_before_another_may_begin() -> None:
    bucket = Bucket()
    lease = bucket.lease("first")
    assert lease.acquire()
    bucket.now += GIVE_UP_SECONDS
    assert not lease.is_held
    assert GIVE_UP_SECONDS < LEASE_SECONDS


def test_a_lease_that_was_not_renewed_in_time_is_taken_anew_unless_another_driver_has_it() -> None:
    """A topic may be tried again after S3 was away for long, and what is written then must be its own."""
    bucket = Bucket()
    lease, other = bucket.lease("first"), bucket.lease("second")
    assert lease.acquire()
    bucket.now += GIVE_UP_SECONDS
    assert lease.acquire()
    assert lease.is_held
    assert not other.acquire()
    bucket.now += LEASE_SECONDS
    assert other.acquire()
    assert not lease.acquire()
    bucket.now += 1
    assert other.renew()
    with pytest.raises(LakeError, match="another driver writes this topic"):
        lease.acquire()


def test_paths_on_s3_are_those_of_hadoop() -> None:
    assert hadoop_path("s3://b/lake") == hadoop_path("s3a://b/lake") == "s3a://b/lake"
    assert hadoop_path("/data/s3://b") == "/data/s3://b"
    assert [is_s3(path) for path in ("s3://b", "S3A://b", "hdfs://b", "/s3", None)] == [True, True, False, False, False]


def test_the_jars_for_s3_are_modules_and_not_the_bundle_of_600_mb() -> None:
    for version, hadoop in (("4.0.0", "3.4.1"), ("4.1.4", "3.4.2")):
        found = settings(
            SessionOptions(parts=(S3,), conf=configuration("http://127.0.0.1:1", None)), "local[1]", version
        )
        assert f"hadoop-aws:{hadoop}" in found["spark.jars.packages"]
        assert found["spark.jars.excludes"] == SDK_BUNDLE
        assert found["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:1"
        assert SDK_BUNDLE not in ",".join(coordinates((S3,), version))


def test_iceberg_without_a_catalog_is_refused_on_s3() -> None:
    cluster = ClusterAddress("127.0.0.1:1", {})
    lake = LakeSettings(cluster, "s3a://b/lake", topics=("t",))
    with pytest.raises(LakeError, match="needs a --catalog"):
        replace(lake, table_format="iceberg").check()
    replace(lake, table_format="iceberg", catalog="mine").check()
    lake.check()
    assert lake.lease("t") == PATH
