"""Further names of metrics, bounded series, rates of late, and what is told of the process."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from broker.observe import process_metrics
from broker.observe.controller_metrics import UncleanElections
from broker.observe.metrics import NOTE_MS, NOTES, Metrics, RecentRates, SeriesLimits, bounded, first
from broker.observe.process_metrics import GcTime
from metadata.delta import MetadataDelta
from protocol.metadata.topics import NO_LEADER, PartitionChangeRecord
from tests.doubles.clock import ManualClock
from tests.unit.broker.rig import Rig
from tests.unit.broker.scraping import only, samples
from tests.unit.controller.images import broker, image_of, topic


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        ("kafka_server_replicamanager_isrshrinks_total", "kafka_server_replicamanager_isrshrinkspersec"),
        ("kafka_server_raft_metrics_high_watermark", "kafka_server_raftmetrics_high_watermark"),
        (
            "kafka_server_broker_metadata_metrics_last_applied_record_offset",
            "kafka_server_brokermetadatametrics_last_applied_record_offset",
        ),
    ],
)
def test_a_metric_has_the_names_of_both_rule_files(ours: str, other: str) -> None:
    metrics = Metrics()
    register = metrics.counter if ours.endswith("_total") else metrics.gauge
    register(ours, "Some.", ("kind",), lambda: [(("a",), 3)])
    assert only(samples(metrics), other) == only(samples(metrics), ours) == {'{kind="a"}': 3}


def test_topics_beyond_the_bound_are_summed_and_sums_are_of_all() -> None:
    metrics = Metrics(SeriesLimits(topics=2))
    for number in range(4):
        metrics.produced(f"t{number}", messages=1, size=10**number)
    found = only(samples(metrics), "kafka_server_brokertopicmetrics_bytesin_total")
    assert found == {"": 1111, '{topic="t0"}': 1, '{topic="t1"}': 10, '{topic="other"}': 1100}


def test_a_topic_of_the_name_of_the_rest_is_one_series_with_it() -> None:
    metrics = Metrics(SeriesLimits(topics=1))
    metrics.produced("other", messages=1, size=1)
    metrics.produced("t", messages=1, size=10)
    assert only(samples(metrics), "kafka_server_brokertopicmetrics_bytesin_total") == {"": 11, '{topic="other"}': 11}


def test_rows_beyond_the_bound_become_one() -> None:
    rows = [(("a", "0"), 1), (("a", "1"), 2), (("b", "0"), 4), (("c", "0"), 8)]
    assert dict(bounded(rows, 1)) == {("a", "0"): 1, ("a", "1"): 2, ("other", ""): 12}
    assert dict(bounded(rows, 1, slice(1, 2))) == {("a", "0"): 1, ("b", "0"): 4, ("c", "0"): 8, ("", "other"): 2}
    assert first("abcab", 2) == {"a", "b"}


async def test_a_rate_is_that_of_the_last_half_minute() -> None:
    clock, totals = ManualClock(), Counter(a=100)
    rates = RecentRates(clock.monotonic_ms)
    read = rates.of(lambda: {("a",): totals["a"]})
    totals["a"] += 50
    clock.advance(NOTE_MS)
    assert dict(read()) == {("a",): 10}
    for _ in range(NOTES):
        await rates.note()
        clock.advance(NOTE_MS)
    assert dict(read()) == {("a",): 0}


async def test_the_loop_is_idle_as_far_as_its_thread_used_no_cpu() -> None:
    clock, metrics, used = ManualClock(), Metrics(), [0.0]
    process_metrics.register_process(metrics, RecentRates(clock.monotonic_ms), lambda: used[0])
    clock.advance(10_000)
    used[0] = 2.5
    found = samples(metrics)
    assert found["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"] == 0.75
    assert found["kafka_network_socketserver_networkprocessoravgidlepercent"] == 0.75


def test_the_time_of_collections_is_counted_by_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, metrics = [10.0], Metrics()
    monkeypatch.setattr(gc, "callbacks", [])
    times = GcTime(lambda: now_s[0])
    times.begin(metrics)
    for generation, took_s in ((0, 0.5), (2, 2.0), (0, 0.25)):
        for phase in ("start", "stop"):
            (callback,) = gc.callbacks
            callback(phase, {"generation": generation})
            now_s[0] += took_s if phase == "start" else 100
    found = only(samples(metrics), "odradek_gc_seconds_total")
    assert found == {'{generation="0"}': 0.75, '{generation="1"}': 0, '{generation="2"}': 2}


async def test_a_whole_node_says_that_it_runs_leads_and_controls() -> None:
    async with Rig() as rig:
        await rig.create("letters", partitions=2)
        found = samples(rig.node.local.metrics)
        assert found["kafka_server_kafkaserver_brokerstate"] == process_metrics.RUNNING
        assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 1
        assert found["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
        assert found["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
        assert rig.node.cluster.metadata_log is not None
        assert rig.node.cluster.metadata_log.commits[0] > 0
        assert found["kafka_server_raftmetrics_commit_latency_avg"] >= 0
        assert found['kafka_topic_partitions{topic="letters"}'] == 2
        assert found["kafka_server_replicamanager_atminisrpartitioncount"] == 2
        for name in ("current_offset", "under_replicated_partition"):
            assert found[f'kafka_topic_partition_{name}{{partition="1",topic="letters"}}'] == 0
        for name in ("kafka_topic_partition_replicas", "kafka_cluster_partition_atminisr"):
            assert found[f'{name}{{partition="1",topic="letters"}}'] == 1
        rig.node.state.not_ready = "stopping"
        found = samples(rig.node.local.metrics)
        assert found["kafka_server_kafkaserver_brokerstate"] == process_metrics.SHUTTING_DOWN


@pytest.mark.parametrize(("leader", "count"), [(2, 0), (3, 1), (NO_LEADER, 0)])
def test_an_election_is_unclean_if_the_new_leader_was_not_in_sync(leader: int, count: int) -> None:
    brokers = [broker(node_id) for node_id in (1, 2, 3)]
    image = image_of(*brokers, *topic("t", 1, [1, 2, 3]))
    image = image_of(change(isr=(1, 2)), image=image)
    delta, elections = MetadataDelta(image), UncleanElections()
    delta.replay(change(leader=leader, isr=(leader,)))
    elections.follow(delta, delta.apply(image.offset + 1, 1, 0))
    assert elections.count == count


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=UUID(int=1), partition_id=0, **fields)
