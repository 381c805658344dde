"""What a job's manifest and progress look like on the broker, and what differs between two manifests."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from odradek_pipeline.replay.progress import JobManifest, TaskProgress, transactional_id


def test_progress_and_manifest_come_back_as_they_were() -> None:
    progress = TaskProgress(rows=7, size=2**40, crc=2**32 - 1, done=True)
    manifest = JobManifest(3, {"path": "/lake/ä", "version": 4}, {"topic": None, "order_by": ["a", "b"]})
    assert TaskProgress.decode(progress.encode()) == progress
    assert JobManifest.decode(manifest.encode()) == manifest


def test_no_two_tasks_of_any_jobs_share_a_transactional_id() -> None:
    jobs = ["a", "a-1", "a-1-2", "a.start", "start"]
    ids = [transactional_id(job, task) for job in jobs for task in (None, 0, 1, 2, 12)]
    assert len(set(ids)) == len(ids)


def test_the_differences_are_named() -> None:
    begun = JobManifest(2, {"path": "/a", "files": 1}, {"topic": "t"})
    assert begun.differences(begun) == []
    assert begun.differences(JobManifest(3, {"path": "/a", "version": 0}, {"topic": "t"})) == [
        "files: 1, now None",
        "tasks: 2, now 3",
        "version: None, now 0",
    ]
