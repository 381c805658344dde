"""Dispatcher: what is closed, what is answered with an error, and that no error is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import fields, replace
from datetime import timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.describe_user_scram_credentials.v0.request import UserName
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.update_features.v2.request import FeatureUpdateKey

from broker.api.table import handler_of
from broker.logging import Tracebacks
from broker.network.request import CloseConnectionError
from protocol.api import messages
from protocol.api.row import Api
from protocol.api.table import API_TABLE
from protocol.errors import NotController
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import answer, batch, entity_frame, frame, produce, sized
from tests.unit.protocol.conftest import Generator

every_api = pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        yield one


def answer_with(monkeypatch: pytest.MonkeyPatch, rig: Rig, api: Api, handle: Any) -> None:
    """Put `handle` in the place of an API's handler."""
    route = rig.route(api.key)
    monkeypatch.setattr(route, "handle", handle)


def codes_in(value: Any) -> set[str]:
    """Names of all error codes anywhere in an entity."""
    if isinstance(value, tuple):
        return set().union(*map(codes_in, value))
    if hasattr(value, "__dataclass_fields__"):
        own = {ErrorCode(value.error_code).name} if hasattr(value, "error_code") else set()  # some are plain numbers
        return own.union(*(codes_in(getattr(value, name)) for name in value.__dataclass_fields__))
    return {value.name} if type(value).__name__ == "ErrorCode" else set()


def codes_told(reply: bytes, api: Api, version: int) -> set[str]:
    if api.name.endswith("_delegation_token"):  # kio does not read the times -1 in these; the error code is first
        at = 4 + api.response_header_version(version)
        return {ErrorCode(int.from_bytes(reply[at : at + 2], "big", signed=True)).name}
    return codes_in(answer(reply, api.name, version))


def with_topics(api: Api, version: int) -> Any:
    """A request that names something, for responses that tell errors only beside what was asked for."""
    for seed in range(1, 50):  # the first names a partition twice, which has an answer of its own
        request = Generator((api.name, version, seed)).entity(messages.request_class(api.key, version))
        arrays = [one for name in request.__dataclass_fields__ if isinstance(one := getattr(request, name), tuple)]
        nested = [
            inner
            for one in arrays
            for entity in one
            if hasattr(entity, "__dataclass_fields__")
            for name in entity.__dataclass_fields__
            if isinstance(inner := getattr(entity, name), tuple)
        ]
        names_something = getattr(request, "topics", ()) is not None
        names_something = names_something and getattr(request, "group_id", "g") != ""
        if names_something and all(arrays) and all(nested) and getattr(request, "acks", 1) != 0:
            return without_zeros(request) if api.name.endswith("_acls") else request
    raise AssertionError("no such request")


def without_zeros(value: Any) -> Any:
    """With 1 for each number that is 0: a request about ACLs with a 0 is not read."""
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{one.name: without_zeros(getattr(value, one.name)) for one in fields(value)})
    if isinstance(value, tuple):
        return tuple(map(without_zeros, value))
    return value or 1 if isinstance(value, int) else value


def versions_of(api: Api) -> range:
    return range(api.lowest, api.highest + 1)


FIRST_WITH_TOPIC_IDS = {"offset_commit": 10, "txn_offset_commit": 6}


@every_api
def test_each_api_of_the_table_has_a_handler(api: Api) -> None:
    assert callable(handler_of(api).handle)


@every_api
async def test_a_kafka_error_becomes_the_error_response(rig: Rig, monkeypatch: pytest.MonkeyPatch, api: Api) -> None:
    """In every version, both at once and later."""

    def fail(_ctx: Any, _request: Any) -> Any:
        raise NotController("not here")

    async def fail_later(_ctx: Any, _request: Any) -> Any:
        raise NotController("not here")

    for version, failing in product(versions_of(api), (fail, fail_later)):
        answer_with(monkeypatch, rig, api, failing)
        client = rig.connect()
        client.transport.feed(entity_frame(with_topics(api, version), 7))
        await settle()
        (reply,) = client.replies()
        told = codes_told(reply, api, version)
        if api.name == "describe_log_dirs" and version < 3:
            assert told == set(), version  # no log dirs, no place for an error
        elif api.name in FIRST_WITH_TOPIC_IDS:
            by_id = version >= FIRST_WITH_TOPIC_IDS[api.name]
            unknown = "unknown_topic_id" if by_id else "unknown_topic_or_partition"
            assert told == {unknown}, version  # the topics do not exist, which is told first
        else:
            assert "not_controller" in told, version


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
async def test_an_unexpected_error_is_counted_and_answered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, later: bool, tracebacks: Tracebacks
) -> None:
    def fail(_ctx: Any, _request: Any) -> Any:
        raise ZeroDivisionError

    async def fail_later(_ctx: Any, _request: Any) -> Any:
        raise ZeroDivisionError

    api = next(one for one in API_TABLE if one.name == "describe_cluster")
    answer_with(monkeypatch, rig, api, fail_later if later else fail)
    client = rig.connect()
    told = await client.ask("describe_cluster", 1, include_cluster_authorized_operations=False)
    assert told.error_code.name == "unknown_server_error"
    assert tracebacks.count == 1
    assert [code.name for code in rig.node.local.metrics.requests["describe_cluster"].errors] == [
        "unknown_server_error"
    ]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
async def test_a_response_that_cannot_be_written_is_an_unexpected_error(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, later: bool, tracebacks: Tracebacks
) -> None:
    def wrong(_ctx: Any, _request: Any) -> Any:
        return SimpleNamespace(error_code="no code")

    async def wrong_later(_ctx: Any, _request: Any) -> Any:
        return SimpleNamespace(error_code="no code")

    api = next(one for one in API_TABLE if one.name == "describe_cluster")
    answer_with(monkeypatch, rig, api, wrong_later if later else wrong)
    client = rig.connect()
    told = await client.ask("describe_cluster", 1, include_cluster_authorized_operations=False)
    assert told.error_code.name == "unknown_server_error"
    assert tracebacks.count == 1


@pytest.mark.parametrize("version", [0, 1], ids=["legacy", "flexible"])
async def test_a_text_longer_than_a_string_may_be_fails_the_request_as_in_kafka(
    rig: Rig, version: int, tracebacks: Tracebacks
) -> None:
    config = AlterableConfig(name="n" * 32_767, config_operation=0, value="")
    await rig.create("t")
    told = await rig.connect().ask(
        "incremental_alter_configs",
        version,
        resources=(AlterConfigsResource(resource_type=2, resource_name="t", configs=(config,)),),
        validate_only=True,
    )
    (response,) = told.responses
    assert (response.error_code.name, response.error_message) == ("unknown_server_error", None)
    assert tracebacks.count == 0


async def test_what_is_told_where_an_error_text_is_too_long(rig: Rig) -> None:
    client, long = rig.connect(), "q" * 32_767
    told = await client.ask("describe_user_scram_credentials", 0, users=(UserName(name=long), UserName(name="u")))
    assert (told.error_code.name, told.error_message) == ("unknown_server_error", None)
    topic = TopicRequest(name=long, partition_indexes=(0,))
    (producers,) = (await client.ask("describe_producers", 0, topics=(topic,))).topics[0].partitions
    assert (producers.error_code.name, producers.error_message) == ("unknown_server_error", None)
    update = FeatureUpdateKey(feature=long, max_version_level=1, upgrade_type=1)
    features = await client.ask(
        "update_features", 2, timeout=timedelta(seconds=1), feature_updates=(update,), validate_only=True
    )
    assert features.error_code.name == "unknown_server_error"


async def test_an_error_response_that_fails_itself_closes_the_connection_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tracebacks: Tracebacks
) -> None:
    def fail(*_args: Any) -> Any:
        raise ZeroDivisionError

    api = next(one for one in API_TABLE if one.name == "metadata")
    answer_with(monkeypatch, rig, api, fail)
    monkeypatch.setattr(rig.route(api.key), "failed", fail)
    client, other = rig.connect(), rig.connect()
    client.transport.feed(entity_frame(with_topics(api, 12), 1) + frame("api_versions", 0, 2))
    assert await client.closed()
    assert client.replies() == []
    assert (await other.ask("api_versions", 0)).error_code.name == "none"
    assert tracebacks.count == 2


async def test_a_decoder_that_fails_unexpectedly_closes_the_connection_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tracebacks: Tracebacks
) -> None:
    def fail(*_args: Any) -> Any:
        raise ZeroDivisionError

    route = rig.route(0)
    monkeypatch.setattr(route, "decode", fail)
    client, other = rig.connect(), rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a")}))
    assert await client.closed()
    assert tracebacks.count == 1
    assert (await other.ask("api_versions", 0)).error_code.name == "none"


async def test_a_failure_after_the_connection_is_lost_is_still_logged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tracebacks: Tracebacks
) -> None:
    go_on = asyncio.Event()

    async def fail_later(_ctx: Any, _request: Any) -> Any:
        await go_on.wait()
        raise ZeroDivisionError

    api = next(one for one in API_TABLE if one.name == "describe_cluster")
    answer_with(monkeypatch, rig, api, fail_later)
    client = rig.connect()
    client.send("describe_cluster", 1, include_cluster_authorized_operations=False)
    client.transport.reset()
    await settle()
    go_on.set()
    await settle()
    assert tracebacks.count == 1
    assert not rig.node.dispatcher._tasks


@pytest.mark.parametrize(("key", "version"), [(1, 3), (1, 19), (3, 14), (0, 2), (999, 0), (-1, 0), (4, 0)])
async def test_what_kafka_would_not_answer_closes_that_connection_alone(rig: Rig, key: int, version: int) -> None:
    client, other = rig.connect(), rig.connect()
    body = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff" + bytes(40)
    client.transport.feed(sized(body) + frame("api_versions", 0, 2))
    assert await client.closed()
    assert client.replies() == []
    assert (await other.ask("api_versions", 0)).error_code.name == "none"


async def test_api_versions_too_new_is_answered_in_version_0(rig: Rig) -> None:
    client = rig.connect()
    body = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + (5).to_bytes(4, "big") + b"\xff\xff\x00"
    client.transport.feed(sized(body))
    await settle()
    (reply,) = client.replies()
    told = answer(reply, "api_versions", 0)
    assert told.error_code.name == "unsupported_version"
    assert [(one.api_key, one.min_version, one.max_version) for one in told.api_keys] == [(18, 0, 5)]


@every_api
async def test_a_request_cut_short_closes_that_connection_alone(rig: Rig, api: Api, tracebacks: Tracebacks) -> None:
    for version in versions_of(api):
        whole = entity_frame(with_topics(api, version), 1)[4:]
        for size in {len(whole) // 2, 10, 9, 3, 0}:
            client = rig.connect()
            client.transport.feed(sized(whole[:size]))
            await settle()
            assert client.transport.lost or client.replies(), (version, size)
    assert tracebacks.count == 0


async def test_produce_without_acknowledgement(rig: Rig, tracebacks: Tracebacks) -> None:
    await rig.create("t")
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a")}, acks=0))
    client.transport.feed(frame("api_versions", 0, 2))
    await settle()
    assert len(client.replies()) == 1
    assert rig.node.replicas.get("t", 0).log_end_offset == 1
    client.send("produce", 9, **produce("t", {7: batch(b"a")}, acks=0))
    assert await client.closed()
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: bytes(61)}, acks=0))  # fails the request as a whole
    assert await client.closed()
    assert tracebacks.count == 0


async def test_a_handler_may_close_its_connection_later(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_ctx: Any, _request: Any) -> Any:
        raise CloseConnectionError("not you")

    api = next(one for one in API_TABLE if one.name == "describe_cluster")
    answer_with(monkeypatch, rig, api, refuse)
    client = rig.connect()
    client.send("describe_cluster", 1, include_cluster_authorized_operations=False)
    assert await client.closed()
    assert client.replies() == []
