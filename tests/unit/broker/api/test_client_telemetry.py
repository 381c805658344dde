"""Client telemetry (KIP-714): when clients may ask and push, as with a real Kafka without a receiver plugin."""

from __future__ import annotations

import uuid
import zlib
from typing import Any

import pytest

from metadata.configs import ResourceType
from protocol.errors import KafkaError
from tests.unit.broker.admin_rig import FakePeer, Rig

CLIENT = uuid.UUID("c2d6fdc8-2bd2-4d31-a5a6-98bad32a1716")
INTERVAL = 300_000


async def subscribe(rig: Rig, client: uuid.UUID | None = CLIENT) -> Any:
    return await rig.ask("get_telemetry_subscriptions", client_instance_id=client)


async def set_subscription(rig: Rig, name: str, configs: dict[str, str]) -> None:
    """What clients are to push from now on."""
    await rig.set_configs(ResourceType.CLIENT_METRICS, name, configs)


async def push(
    rig: Rig,
    subscription: int,
    *,
    client: uuid.UUID | None = CLIENT,
    terminating: bool = False,
    codec: int = 0,
    metrics: bytes = b"",
) -> str:
    try:
        answer = await rig.ask(
            "push_telemetry",
            client_instance_id=client,
            subscription_id=subscription,
            terminating=terminating,
            compression_type=codec,
            metrics=metrics,
        )
    except KafkaError as error:
        return error.code.name
    code: str = answer.error_code.name
    return code


async def test_kip_714_a_subscription_is_kafkas() -> None:
    answer = await subscribe(await Rig.open())
    assert (answer.client_instance_id, answer.requested_metrics) == (CLIENT, ())
    assert answer.accepted_compression_types == (4, 3, 1, 2)
    assert answer.push_interval.total_seconds() * 1000 == INTERVAL
    assert (answer.telemetry_max_bytes, answer.delta_temporality) == (1 << 20, True)


async def test_a_match_that_cannot_be_read_hides_no_other_subscription_of_client_metrics() -> None:
    rig = await Rig.open()
    wanted = {"metrics": "org.apache.kafka.producer.", "interval.ms": "1000"}
    await rig.set_configs(ResourceType.CLIENT_METRICS, "a", {**wanted, "match": r"client_id=\p{L}+"})
    await set_subscription(rig, "b", wanted)
    assert (await subscribe(rig)).requested_metrics == ("org.apache.kafka.producer.",)


async def test_a_client_without_an_id_is_given_one() -> None:
    rig = await Rig.open()
    given = {(await subscribe(rig, None)).client_instance_id for _ in range(3)}
    assert len(given) == 3


async def test_kip_714_one_push_an_interval() -> None:
    rig = await Rig.open()
    subscription = (await subscribe(rig)).subscription_id
    assert (await subscribe(rig)).error_code.name == "throttling_quota_exceeded"
    rig.node.local.clock.advance(1)
    assert await push(rig, subscription) == "none"
    assert await push(rig, subscription) == "throttling_quota_exceeded"
    rig.node.local.clock.advance(INTERVAL)
    assert await push(rig, subscription) == "none"
    assert (await subscribe(rig)).error_code.name == "throttling_quota_exceeded"
    rig.node.local.clock.advance(INTERVAL)
    assert (await subscribe(rig)).error_code.name == "none"


async def test_the_last_push_may_come_early_and_is_the_last() -> None:
    rig = await Rig.open()
    subscription = (await subscribe(rig)).subscription_id
    assert await push(rig, subscription) == "none"
    assert await push(rig, subscription, terminating=True) == "none"
    assert await push(rig, subscription, terminating=True) == "invalid_request"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"client": None}, "invalid_request"),
        ({"client": uuid.UUID(int=1)}, "invalid_request"),
        ({"codec": 9}, "unsupported_compression_type"),
        ({"codec": -1}, "unsupported_compression_type"),
        ({"metrics": b"x" * ((1 << 20) + 1)}, "telemetry_too_large"),
        ({"metrics": b"not checked"}, "none"),
        ({"codec": 4, "metrics": b"garbage"}, "invalid_record"),
        ({"codec": 1, "metrics": zlib.compress(b"metrics", wbits=31)}, "none"),
    ],
)
async def test_pushes_refused(changes: dict[str, Any], code: str) -> None:
    rig = await Rig.open()
    assert await push(rig, (await subscribe(rig)).subscription_id, **changes) == code


async def test_after_an_unknown_subscription_the_client_may_ask_at_once() -> None:
    rig = await Rig.open()
    subscription = (await subscribe(rig)).subscription_id
    assert await push(rig, subscription + 1) == "unknown_subscription_id"
    assert (await subscribe(rig)).error_code.name == "none"
    assert (await subscribe(rig)).error_code.name == "throttling_quota_exceeded"


async def test_what_is_subscribed_to_depends_on_who_asks_and_changes_at_once() -> None:
    rig = await Rig.open()
    before = (await subscribe(rig)).subscription_id
    match = "client_software_name=apache-.*,client_id=client"
    await set_subscription(rig, "java", {"match": match, "metrics": "b,a", "interval.ms": "1000"})
    await set_subscription(rig, "other", {"match": "client_id=cli", "metrics": "*"})
    await set_subscription(rig, "all", {"metrics": "a", "interval.ms": "5000"})
    answer = await subscribe(rig)
    assert answer.requested_metrics == ("a", "b")
    assert answer.push_interval.total_seconds() == 1
    assert answer.subscription_id != before
    await set_subscription(rig, "other", {"metrics": "*"})
    assert (await subscribe(rig)).requested_metrics == ("*",)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("client_source_port=[0-9]+,client_source_address=0:0:0:0:0:0:0:1", True),
        ("client_source_port=1234", False),
        ("client_source_address=::1", False),
    ],
)
async def test_a_subscription_may_name_address_and_port_of_clients(match: str, matches: bool) -> None:
    rig = await Rig.open()
    rig.peer.client_address = "0:0:0:0:0:0:0:1"
    await set_subscription(rig, "m", {"match": match, "metrics": "a"})
    assert bool((await subscribe(rig)).requested_metrics) is matches


async def test_the_metrics_of_all_subscriptions_come_by_name() -> None:
    rig = await Rig.open()
    wanted = {"cm-one": "org.b,org.a", "cm-two": "zz,aa", "x": "org.c"}
    for name, metrics in wanted.items():
        await set_subscription(rig, name, {"metrics": metrics})
    assert (await subscribe(rig)).requested_metrics == ("aa", "org.a", "org.b", "org.c", "zz")


@pytest.mark.parametrize("match", ["client_software_version=(a|a)*b", "client_software_version=(?!b).*"])
async def test_no_pattern_takes_for_ever_and_those_beyond_re2_count_too(match: str) -> None:
    rig = await Rig.open()
    rig.peer.client_software = ("evil", "a" * 60)
    await set_subscription(rig, "m", {"match": match, "metrics": "a"})
    assert (await subscribe(rig)).requested_metrics == (("a",) if "?" in match else ())


async def test_a_client_is_forgotten_with_its_connection() -> None:
    rig = await Rig.open()
    subscription = (await subscribe(rig)).subscription_id
    assert await push(rig, subscription, terminating=True) == "none"
    assert await push(rig, subscription) == "invalid_request"
    rig.node.local.client_telemetry.connection_lost(rig.peer)
    rig.peer = FakePeer()
    assert await push(rig, subscription) == "none"
