"""Metrics: counts and names as in Kafka's JMX exporter, read at each scrape."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from structlog.testing import capture_logs

from broker.observe.metrics import TIME_BOUNDS_MS, Histogram, Metrics, RecentRates
from broker.observe.node_metrics import register_gauges
from broker.observe.process_metrics import PERIOD_MS, LoopLag
from broker.process import KAFKA_VERSION, own_version
from broker.replication.partition import Role
from protocol.api.table import API_BY_NAME
from storage.shortages import Shortages
from tests.doubles.clock import ManualClock
from tests.unit.broker.scraping import only, samples, scrape
from timing.purgatory import DelayedOperation, Purgatory
from timing.wheel import TimingWheel


def test_topics_are_counted_each_and_together_as_kafka_does() -> None:
    metrics = Metrics()
    metrics.produced("a", messages=3, size=100)
    metrics.produced("a", messages=1, size=50)
    metrics.produced("b", messages=1, size=7)
    metrics.produce_failed("b")
    metrics.fetched("a", partitions=1, size=500)
    metrics.fetched("a", partitions=1, size=0)
    metrics.fetched("b", partitions=1, size=0)
    metrics.fetch_failed("b")
    found = only(samples(metrics), "kafka_server_brokertopicmetrics_")
    assert found['bytesinpersec{topic="a"}'] == found['bytesin_total{topic="a"}']
    assert {name: value for name, value in found.items() if value and "persec" not in name} == {
        "messagesin_total": 5,
        'messagesin_total{topic="a"}': 4,
        'messagesin_total{topic="b"}': 1,
        "bytesin_total": 157,
        'bytesin_total{topic="a"}': 150,
        'bytesin_total{topic="b"}': 7,
        "bytesout_total": 500,
        'bytesout_total{topic="a"}': 500,
        "totalproducerequests_total": 4,
        'totalproducerequests_total{topic="a"}': 2,
        'totalproducerequests_total{topic="b"}': 2,
        "totalfetchrequests_total": 3,
        'totalfetchrequests_total{topic="a"}': 2,
        'totalfetchrequests_total{topic="b"}': 1,
        "failedproducerequests_total": 1,
        'failedproducerequests_total{topic="b"}': 1,
        "failedfetchrequests_total": 1,
        'failedfetchrequests_total{topic="b"}': 1,
    }


def test_a_deleted_topic_leaves_the_list_and_stays_in_the_sum() -> None:
    metrics = Metrics()
    metrics.produced("a", messages=3, size=100)
    metrics.topic_deleted("a")
    metrics.topic_deleted("never seen")
    metrics.produced("a", messages=2, size=10)
    found = only(samples(metrics), "kafka_server_brokertopicmetrics_messagesin_total")
    assert found == {"": 5, '{topic="a"}': 2}


def test_fetches_of_consumers_and_of_followers_are_counted_apart_too() -> None:
    metrics = Metrics()
    for version in (17, 18, 18):
        metrics.requests["fetch"].done(version, 1)
    metrics.follower_fetches += 1
    assert only(samples(metrics), "kafka_network_requestmetrics_requests_total") == {
        '{request="Fetch",version="17"}': 1,
        '{request="Fetch",version="18"}': 2,
        '{request="FetchConsumer",version=""}': 2,
        '{request="FetchFollower",version=""}': 1,
    }
    metrics.follower_fetches += 1  # not answered yet
    found = only(samples(metrics), "kafka_network_requestmetrics_requests_total")
    assert found['{request="FetchConsumer",version=""}'] == 2, "a count never falls"


def test_requests_are_told_by_kafkas_name_version_error_and_time() -> None:
    metrics = Metrics()
    metrics.requests["list_offsets"].done(10, 0.1)
    metrics.requests["list_offsets"].done(10, 0.11)
    metrics.requests["list_offsets"].done(9, 60_000)
    metrics.request_error("list_offsets", ErrorCode.unknown_topic_or_partition)
    found = only(samples(metrics), "kafka_network_requestmetrics_")
    assert found['requests_total{request="ListOffsets",version="10"}'] == 2
    assert found['requests_total{request="ListOffsets",version="9"}'] == 1
    assert found['errors_total{error="UNKNOWN_TOPIC_OR_PARTITION",request="ListOffsets"}'] == 1
    assert found['totaltimems_bucket{le="0.1",request="ListOffsets"}'] == 1
    assert found['totaltimems_bucket{le="0.25",request="ListOffsets"}'] == 2
    assert found['totaltimems_bucket{le="30000.0",request="ListOffsets"}'] == 2
    assert found['totaltimems_bucket{le="+Inf",request="ListOffsets"}'] == 3
    assert found['totaltimems_count{request="ListOffsets"}'] == 3
    assert found['totaltimems_sum{request="ListOffsets"}'] == pytest.approx(60_000.21)


@pytest.mark.parametrize(
    ("api", "name"),
    [("produce", "Produce"), ("api_versions", "ApiVersions"), ("offset_for_leader_epoch", "OffsetForLeaderEpoch")],
)
def test_an_apis_name_is_kafkas(api: str, name: str) -> None:
    assert API_BY_NAME[api].kafka_name == name


def test_a_histograms_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram((1, 2))
    for value in (0, 1, 1.5, 2, 2.1):
        histogram.observe(value)
    assert (histogram.counts, histogram.cumulative(), histogram.sum) == ([2, 2, 1], [2, 4, 5], pytest.approx(6.6))
    assert sorted(TIME_BOUNDS_MS) == list(TIME_BOUNDS_MS)


def test_readings_are_asked_at_every_scrape() -> None:
    metrics = Metrics()
    state = {"size": 1, "made": 10}
    metrics.gauge("odradek_size", "A size.", (), lambda: state["size"])
    metrics.counter("odradek_made_total", "Things made.", ("of", "kind"), lambda: [(("tin", "x"), state["made"])])
    assert only(samples(metrics), "odradek_size") == {"": 1}
    state.update(size=0, made=11)
    found = samples(metrics)
    assert found["odradek_size"] == 0
    assert found['odradek_made_total{kind="x",of="tin"}'] == 11


def test_a_name_is_registered_once_and_a_counters_ends_in_total() -> None:
    metrics = Metrics()
    metrics.gauge("odradek_size", "A size.", (), lambda: 1)
    with pytest.raises(ValueError, match="registered already"):
        metrics.gauge("odradek_size", "A size.", (), lambda: 2)
    with pytest.raises(ValueError, match="_total"):
        metrics.counter("odradek_made", "Made.", (), lambda: 1)


def test_a_reading_that_fails_is_logged_and_hides_no_other() -> None:
    metrics = Metrics()
    metrics.gauge("odradek_bad", "Fails.", (), lambda: 1 / 0)
    metrics.gauge("odradek_good", "Works.", (), lambda: 1)
    with capture_logs() as logs:
        found = samples(metrics)
    assert only(found, "odradek_bad") == {}
    assert found["odradek_good"] == 1
    assert [(line["metric"], line["log_level"], line["exc_info"]) for line in logs] == [("odradek_bad", "error", True)]


def test_the_openmetrics_form_is_valid_and_has_the_process() -> None:
    metrics = Metrics()
    metrics.produced('a"\\\n', messages=1, size=1)
    metrics.requests["fetch"].done(4, 3)
    text = generate_openmetrics(scrape(metrics)).decode()
    families = {family.name: family for family in parse_openmetrics(text)}
    topics = {sample.labels.get("topic") for sample in families["kafka_server_brokertopicmetrics_bytesin"].samples}
    assert topics == {None, 'a"\\\n'}
    assert families["kafka_network_requestmetrics_totaltimems"].type == "histogram"
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6


def test_the_loops_lag_is_what_a_timer_came_late() -> None:
    clock = ManualClock()
    metrics = Metrics()
    lag = LoopLag(clock, metrics.loop_lag_s)
    lag.start()
    clock.advance(PERIOD_MS)
    assert metrics.loop_lag_s.cumulative()[0] == 1
    clock.stall(PERIOD_MS + 70)  # the loop is held up for 70 ms beyond the timer
    clock.advance(0)
    assert metrics.loop_lag_s.sum == pytest.approx(0.07)
    found = only(samples(metrics), "odradek_loop_lag_seconds_bucket")
    assert (found['{le="0.05"}'], found['{le="0.1"}']) == (1, 2)
    lag.stop()
    lag.stop()
    assert clock.next_deadline_ms() is None


class Waiting(DelayedOperation):
    """Never complete."""

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None: ...
    def on_expiration(self) -> None: ...


class Sessions(SimpleNamespace):
    def __len__(self) -> int:
        return 3


def partition(topic: str, index: int, size: int, role: Role = Role.LEADER) -> SimpleNamespace:
    log = SimpleNamespace(size=size, segments=[0, 0], log_start_offset=5, log_end_offset=9)
    return SimpleNamespace(topic=topic, index=index, role=role, log=log)


def gauges(metrics: Metrics) -> None:
    """Register the gauges of a node in which one Fetch waits for two partitions."""
    clock = ManualClock()
    wheel, rates = TimingWheel(clock), RecentRates(clock.monotonic_ms)
    purgatories = {name: Purgatory(name, wheel) for name in ("Fetch", "Produce")}
    purgatories["Fetch"].try_complete_else_watch(Waiting(), [("a", 0), ("a", 1)], 100)
    connection = SimpleNamespace(listener_name="PLAIN", client_software=("librdkafka", "2.10"))
    server = SimpleNamespace(
        bound={"PLAIN": 9092, "SSL": 9093},
        connections=[connection],
        created=Counter(PLAIN=7),
        closed=Counter(PLAIN=6),
    )
    parts: dict[str, Any] = {
        "coordinators_wait": lambda: {"Rebalance": 0, "Heartbeat": 3},
        "partitions": [partition("a", 0, 10), partition("a", 1, 20, Role.OFFLINE)],
        "server": server,
        "fetch_sessions": Sessions(partitions=12, evictions=4),
        "shortages": Shortages(lambda: 0.0),
        "throttling": SimpleNamespace(throttle_times=lambda quota_type: [(("u", ""), len(quota_type))]),
    }
    register_gauges(metrics, wheel=wheel, purgatories=purgatories.values(), rates=rates, **parts)
    server.created["SSL"] += 2
    clock.advance(50)


def test_the_nodes_states_have_kafkas_names() -> None:
    metrics = Metrics()
    gauges(metrics)
    found = samples(metrics)
    names = [
        *("kafka_log_", "kafka_server_replicamanager_", "kafka_server_delayed"),
        *("kafka_server_socket_", "kafka_server_fetchsession", "kafka_server_produce", "kafka_server_controller"),
    ]
    software = 'client_software_name="librdkafka",client_software_version="2.10",listener="PLAIN"'
    socket_server = {
        'kafka_server_socket_server_metrics_connection_count{listener="PLAIN"}': 1,
        'kafka_server_socket_server_metrics_connection_count{listener="SSL"}': 0,
        f"kafka_server_socket_server_metrics_connections{{{software}}}": 1,
        'kafka_server_socket_server_metrics_connection_creation_total{listener="PLAIN"}': 7,
        'kafka_server_socket_server_metrics_connection_creation_total{listener="SSL"}': 2,
        'kafka_server_socket_server_metrics_connection_creation_rate{listener="PLAIN"}': 0,
        'kafka_server_socket_server_metrics_connection_creation_rate{listener="SSL"}': 40,
        'kafka_server_socket_server_metrics_connection_close_total{listener="PLAIN"}': 6,
        'kafka_server_socket_server_metrics_connection_close_total{listener="SSL"}': 0,
        'kafka_server_socket_server_metrics_connection_close_rate{listener="PLAIN"}': 0,
        'kafka_server_socket_server_metrics_connection_close_rate{listener="SSL"}': 0,
    }
    assert {n: value for n, value in found.items() if n.startswith(tuple(names)) and "persec" not in n} == {
        'kafka_log_log_size{partition="0",topic="a"}': 10,
        'kafka_log_log_size{partition="1",topic="a"}': 20,
        'kafka_log_log_logstartoffset{partition="0",topic="a"}': 5,
        'kafka_log_log_logstartoffset{partition="1",topic="a"}': 5,
        'kafka_log_log_logendoffset{partition="0",topic="a"}': 9,
        'kafka_log_log_logendoffset{partition="1",topic="a"}': 9,
        'kafka_log_log_numlogsegments{partition="0",topic="a"}': 2,
        'kafka_log_log_numlogsegments{partition="1",topic="a"}': 2,
        "kafka_server_replicamanager_partitioncount": 2,
        "kafka_server_replicamanager_leadercount": 1,
        "kafka_server_replicamanager_offlinereplicacount": 1,
        'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"}': 2,
        'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Produce"}': 0,
        'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Rebalance"}': 0,
        'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Heartbeat"}': 3,
        'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="Fetch"}': 1,
        'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="Produce"}': 0,
        'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="Rebalance"}': 0,
        'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="Heartbeat"}': 3,
        **socket_server,
        "kafka_server_fetchsessioncache_numincrementalfetchsessions": 3,
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached": 12,
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total": 4,
        'kafka_server_produce_throttle_time{client_id="",user="u"}': 7,
        'kafka_server_controllermutation_throttle_time{client_id="",user="u"}': 18,
    }


def test_the_versions_of_the_build_are_told() -> None:
    (name,) = only(samples(Metrics()), "odradek_build_info")
    assert name == f'{{kafka="{KAFKA_VERSION}",version="{own_version()}"}}'
