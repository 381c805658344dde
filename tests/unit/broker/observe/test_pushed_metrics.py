"""What clients push (KIP-714) is in `/metrics`, in bounds, whatever names and labels they choose."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import pytest

from broker.observe import client_telemetry as pushed_metrics
from broker.observe.client_telemetry import INTERVALS_KEPT, MOST_ATTRIBUTES, PushedMetrics, pushed
from broker.observe.metrics import Metrics, SeriesLimits
from protocol.otlp import Point
from protocol.uuids import to_text
from tests.doubles.clock import ManualClock
from tests.unit.broker.admin_rig import Rig
from tests.unit.broker.api.test_client_telemetry import push, set_subscription, subscribe
from tests.unit.broker.scraping import only, samples
from tests.unit.protocol.otlp_messages import counted, gauge, metrics_data, point

INTERVAL_MS = 1_000
RATE = Point("org.apache.kafka.producer.record.send.rate", 2.5, ())


def client(number: int = 1) -> uuid.UUID:
    return uuid.UUID(int=number << 64)


@dataclass
class Kept:
    """The metrics that clients have pushed, and a clock."""

    most_clients: int = 10
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.metrics = Metrics(SeriesLimits(clients=self.most_clients))
        self.pushed = PushedMetrics(self.metrics, self.clock.monotonic_ms)

    def take(self, *points: Point, number: int = 1) -> None:
        self.pushed.take(client(number), f"client-{number}", INTERVAL_MS, [pushed(one) for one in points])

    def found(self) -> dict[str, float]:
        return only(samples(self.metrics), "kafka_client_")


def own(number: int = 1, **more: str) -> str:
    labels = {"client_id": f"client-{number}", "client_instance_id": to_text(client(number)), **more}
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


def test_names_are_prometheus_and_labels_say_whose_it_is() -> None:
    kept = Kept()
    kept.take(RATE, Point("node.latency", 7, (("node.id", "3"), ("client_id", "of another"), ("a-b", "no label"))))
    assert kept.found() == {
        f"producer_record_send_rate{own()}": 2.5,
        f"node_latency{own(node_id='3')}": 7,
    }


def test_sums_since_the_last_push_are_added_up_and_others_are_taken_as_they_are() -> None:
    kept = Kept()
    for value in (3, 4):
        kept.take(
            Point("sent.total", value, (), is_sum=True, is_delta=True),
            Point("seen", value, (), is_sum=True),
            Point("rate", value, ()),
        )
    assert kept.found() == {f"sent_total{own()}": 7, f"seen_total{own()}": 4, f"rate{own()}": 4}


def test_a_client_that_is_silent_is_forgotten() -> None:
    kept = Kept()
    kept.take(RATE)
    kept.clock.advance(INTERVALS_KEPT * INTERVAL_MS - 1)
    kept.take(RATE, number=2)
    assert len(kept.found()) == 2
    kept.clock.advance(1)
    assert kept.found() == {f"producer_record_send_rate{own(2)}": 2.5}
    assert samples(kept.metrics)["odradek_client_metrics_series"] == 1


def test_no_more_clients_are_kept_than_may_be() -> None:
    kept = Kept(most_clients=2)
    for number in (1, 2, 3):
        kept.take(RATE, RATE, number=number)
    assert len(kept.found()) == 2
    assert samples(kept.metrics)["odradek_client_metrics_left_out_total"] == 2


@pytest.mark.parametrize(("limit", "left"), [("MOST_SERIES", 3), ("MOST_NAMES", 3)])
def test_no_more_series_and_names_are_kept_than_may_be(limit: str, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_metrics, limit, 2)
    kept = Kept()
    kept.take(*(Point(f"m{number}", 1, ()) for number in range(5)))
    assert len(kept.found()) == 2
    assert samples(kept.metrics)["odradek_client_metrics_left_out_total"] == left


@pytest.mark.parametrize("name", ["", "a b", "1a", 'a{x="y"} 1\nup', "a" * 201, "é"])
def test_a_name_that_none_can_have_is_left_out(name: str) -> None:
    kept = Kept()
    kept.take(Point(name, 1, ()), RATE)
    assert [*kept.found()] == [f"producer_record_send_rate{own()}"]
    assert samples(kept.metrics)["odradek_client_metrics_left_out_total"] == 1


def test_a_name_belongs_to_the_kind_of_metric_that_had_it_first() -> None:
    kept = Kept()
    kept.take(RATE)
    kept.take(Point(RATE.name, 9, (), is_sum=True), number=2)
    assert [*kept.found()] == [f"producer_record_send_rate{own()}"]


def test_hostile_labels_are_cut_and_quoted() -> None:
    kept = Kept()
    attributes = [(f"a{number}", "x" * 10_000) for number in range(50)]
    kept.take(Point("m", 1, (("topic", 'a"\n} 1'), *attributes)))
    ((name, value),) = kept.found().items()
    assert value == 1
    assert name.count('="') == 2 + MOST_ATTRIBUTES
    assert 'topic="a\\"\\n} 1"' in name
    assert len(name) < 3_000


async def test_kip_714_what_is_subscribed_to_is_kept_and_rubbish_is_refused() -> None:
    rig = await Rig.open()
    data = metrics_data(gauge(RATE.name, point(2.5)), counted("org.apache.kafka.sent.total", point(3)))
    assert await push(rig, (await subscribe(rig)).subscription_id, metrics=data) == "none"
    assert not only(samples(rig.node.local.metrics), "kafka_client_"), "nobody asked for it"
    await set_subscription(rig, "all", {"metrics": "*", "interval.ms": "1000"})
    subscription = (await subscribe(rig)).subscription_id
    assert await push(rig, subscription, metrics=data) == "none"
    rig.node.local.clock.advance(1000)
    assert await push(rig, subscription, metrics=b"rubbish") == "invalid_record"
    found = only(samples(rig.node.local.metrics), "kafka_client_")
    assert sorted((name.partition("{")[0], value) for name, value in found.items()) == [
        ("producer_record_send_rate", 2.5),
        ("sent_total", 3),
    ]


async def test_the_requests_are_advertised_once_somebody_subscribes() -> None:
    rig = await Rig.open()

    async def keys() -> set[int]:
        answer = await rig.ask("api_versions", client_software_name="a", client_software_version="1")
        return {api.api_key for api in answer.api_keys}

    assert not {71, 72} & await keys()
    await set_subscription(rig, "all", {"metrics": "*"})
    assert {71, 72} <= await keys()
