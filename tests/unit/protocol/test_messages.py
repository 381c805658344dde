"""Every served API and version: decoding, lifting and encoding against kio."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.serial import entity_reader as kio_reader

from protocol.api.messages import (
    DecodeError,
    decode_request,
    encode_response,
    lift,
    newest_request,
    newest_response,
    request_class,
    request_reader,
    response_class,
)
from protocol.api.row import Api
from protocol.api.table import API_BY_NAME
from protocol.careful_reader import Read, careful_reader
from protocol.lift import RESHAPED
from protocol.reader import entity_reader
from protocol.schema import default_entity, field_plans
from protocol.writer import entity_writer
from tests.unit.protocol.every_version import EVERY_VERSION, each_version
from tests.unit.protocol.mutation import mutated

MILLISECOND = timedelta(milliseconds=1)
ROOT = Path(__file__).parents[3]
OF_ONE_TRANSACTION = ("transactional_id", "producer_id", "producer_epoch", "topics")


def fitted(entity: Any, cls: Any) -> Any:
    """`entity`'s fields as the older class `cls`: what kio, given that class, encodes."""
    values = {}
    for plan in field_plans(cls):
        value = getattr(entity, plan.name, plan.default)
        if plan.entity is not None and value is not None:
            nested = plan.entity
            value = tuple(fitted(item, nested) for item in value) if plan.array else fitted(value, nested)
        if value is None and not plan.nullable and plan.kind == "string":
            value = ""
        values[plan.name] = value
    return cls(**values)


def header(api: Api, version: int, correlation_id: int) -> bytes:
    return correlation_id.to_bytes(4, "big") + b"\0" * api.response_header_version(version)


@each_version
def test_requests_decode_as_kio_wrote_them_and_trailing_bytes_are_ignored(
    api: Api, version: int, generator: Any, kio_bytes: Any
) -> None:
    make = generator((api.name, version))
    for _ in range(5):
        request = make.entity(request_class(api.key, version))
        body = kio_bytes(request) + b"trailing"
        assert decode_request(api, version, body) == request
        assert request_reader(api.key, version)(body, 0)[0] == lift(request, newest_request(api))


@each_version
def test_what_is_well_formed_is_not_read_twice(
    api: Api, version: int, generator: Any, kio_bytes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protocol.reader.careful_reader", None)
    cls = request_class(api.key, version)
    make = generator((api.name, version))
    for _ in range(4):
        request = make.entity(cls)
        assert entity_reader(cls, cls)(kio_bytes(request), 0)[0] == request


def test_importing_the_codecs_imports_no_kio() -> None:
    """A broker's cold start must not pay for schemas that nobody has asked for yet."""
    code = (
        "import sys, protocol.api.messages, "
        "protocol.produce_fetch.produce_messages, protocol.produce_fetch.fetch_request; sys.exit('kio' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_unknown_tagged_fields_are_skipped(kio_bytes: Any) -> None:
    api = API_BY_NAME["metadata"]
    request = default_entity(newest_request(api))
    body = kio_bytes(request)
    assert body.endswith(b"\0")
    assert decode_request(api, 13, body[:-1] + b"\x02\x05\x02ab\xff\x7f\x00") == request
    with pytest.raises(DecodeError, match="tagged field 5 needs 3 bytes"):
        decode_request(api, 13, body[:-1] + b"\x01\x05\x03ab")


@pytest.mark.parametrize(
    ("name", "version", "body", "reason"),
    [
        ("metadata", 12, b"", "length of MetadataRequest.topics needs 1 bytes"),
        ("metadata", 1, b"\0\0", "length of MetadataRequest.topics needs 4 bytes at position 0, 2 are left"),
        ("metadata", 1, b"\x7f\xff\xff\xff\0", "MetadataRequest.topics needs 2147483647 bytes"),
        ("metadata", 1, b"\0\0\0\x01\xff\xff", "MetadataRequestTopic.name is null"),
        ("metadata", 1, b"\0\0\0\x01\0\x03ab", "MetadataRequestTopic.name needs 3 bytes at position 6, 2 are left"),
        ("metadata", 9, b"\x02\x04ab", "MetadataRequestTopic.name needs 3 bytes at position 2, 2 are left"),
        ("metadata", 1, b"\0\0\0\x01\x80\0", "MetadataRequestTopic.name is null"),
        ("metadata", 9, b"\x02\xff\xff\xff\xff\x0fab", "MetadataRequestTopic.name is null"),
        ("metadata", 9, b"\x02\x80\x80\x80\x80\x08ab", "MetadataRequestTopic.name needs 2147483647 bytes"),
        ("metadata", 9, b"\x02\x81\x80\x02" + bytes(32_768), "MetadataRequestTopic.name has invalid length 32768"),
        ("metadata", 10, b"\x02abc", "MetadataRequestTopic.topic_id needs 16 bytes"),
        ("delete_topics", 6, b"\x00", "DeleteTopicsRequest.topics is null"),
        ("describe_topic_partitions", 0, b"\x01\0\0\0\x01", "Cursor needs 1 bytes"),
    ],
)
def test_what_is_wrong_with_a_request_is_told(name: str, version: int, body: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_request(API_BY_NAME[name], version, body)


@pytest.mark.parametrize(
    ("version", "body"), [(1, b"\xff\xff\xff\xfe"), (1, b"\x80\0\0\0"), (12, b"\x81\x80\x80\x80\x08\0\0\0")]
)
def test_any_negative_length_is_that_of_null(version: int, body: bytes) -> None:
    assert decode_request(API_BY_NAME["metadata"], version, body).topics is None


def test_a_negative_number_of_tagged_fields_is_refused() -> None:
    with pytest.raises(DecodeError, match="number of tagged fields is negative: -1"):
        decode_request(API_BY_NAME["metadata"], 12, b"\0\0\0" + b"\xff\xff\xff\xff\x0f")


def test_what_is_not_utf8_is_replaced_as_java_does() -> None:
    (topic,) = decode_request(API_BY_NAME["metadata"], 1, b"\0\0\0\x01\0\x05a\xff\xed\xa0\x80").topics
    assert topic.name == "a\ufffd\ufffd"


@pytest.mark.parametrize(("marker", "null"), [(0xFF, True), (0x80, True), (0x01, False), (0x7F, False)])
def test_a_struct_is_null_behind_any_negative_byte(marker: int, null: bool) -> None:
    cursor = b"" if null else b"\x02t\0\0\0\x05\0"
    body = b"\x01\0\0\0\x01" + bytes([marker]) + cursor + b"\0"
    request = decode_request(API_BY_NAME["describe_topic_partitions"], 0, body)
    assert (request.cursor is None) == null


@each_version
def test_responses_are_kios_bytes(api: Api, version: int, generator: Any, kio_bytes: Any) -> None:
    cls = response_class(api.key, version)
    make = generator((api.name, version))
    for _ in range(5):
        response = make.entity(cls)
        out = bytearray()
        entity_writer(cls, cls)(out, response)
        assert bytes(out) == kio_bytes(response)


@each_version
def test_the_newest_response_is_written_in_the_version_asked_for(
    api: Api, version: int, generator: Any, kio_bytes: Any
) -> None:
    cls = response_class(api.key, version)
    make = generator((api.name, version))
    for _ in range(8):
        newest = make.entity(newest_response(api))
        frame = bytes(encode_response(api, newest, version, -9 & 0x7FFFFFFF))
        expected = fitted(newest, cls)
        body = header(api, version, -9 & 0x7FFFFFFF) + kio_bytes(expected)
        assert frame == len(body).to_bytes(4, "big") + body
        decoded, size = kio_reader(cls)(frame, len(frame) - len(kio_bytes(expected)))
        assert decoded == expected
        assert size == len(kio_bytes(expected))


@each_version
def test_lifted_requests_keep_common_fields_and_take_defaults(api: Api, version: int, generator: Any) -> None:
    newest = newest_request(api)
    old = generator((api.name, version)).entity(request_class(api.key, version))
    lifted = lift(old, newest)
    assert_lifted(old, lifted, newest)
    if type(old) is newest:
        assert lifted is old


def assert_lifted(old: Any, lifted: Any, cls: Any) -> None:
    plans = field_plans(cls)
    assert type(lifted) is cls
    had = {field.name for field in fields(old)}
    for plan in plans:
        value = getattr(lifted, plan.name)
        if plan.name not in had:
            assert value == plan.default or (cls.__name__, plan.name) in RESHAPED
        elif plan.entity is None or getattr(old, plan.name) is None:
            assert value == getattr(old, plan.name)
        elif plan.array and value is not None:
            assert len(value) == len(getattr(old, plan.name))
            for before, after in zip(getattr(old, plan.name), value, strict=True):
                assert_lifted(before, after, plan.entity)
        elif value is not None:
            assert_lifted(getattr(old, plan.name), value, plan.entity)


def test_names_of_old_delete_topics_requests_become_topics() -> None:
    api = API_BY_NAME["delete_topics"]
    lifted = lift(request_class(20, 3)(topic_names=("a", "b"), timeout=default_timeout()), newest_request(api))
    assert [(topic.name, topic.topic_id) for topic in lifted.topics] == [("a", None), ("b", None)]


def default_timeout() -> Any:
    return default_entity(request_class(20, 3)).timeout


def test_the_member_of_an_old_leave_group_request_becomes_one_of_a_list() -> None:
    old = request_class(13, 2)(group_id="g", member_id="m")
    (member,) = lift(old, newest_request(API_BY_NAME["leave_group"])).members
    assert (member.member_id, member.group_instance_id, member.reason) == ("m", None, None)


def test_an_empty_metadata_request_of_version_0_asks_for_all_topics() -> None:
    api = API_BY_NAME["metadata"]
    assert lift(default_entity(request_class(3, 0)), newest_request(api)).topics is None
    assert lift(default_entity(request_class(3, 1)), newest_request(api)).topics == ()


def test_feature_updates_of_version_0_are_upgrades_whatever_they_allow() -> None:
    old = request_class(57, 0)
    update = next(plan.entity for plan in field_plans(old) if plan.name == "feature_updates")
    assert update is not None
    asked = tuple(update(feature="f", max_version_level=1, allow_downgrade=down) for down in (False, True))
    request = default_entity(old)
    lifted = lift(old(timeout=request.timeout, feature_updates=asked), newest_request(API_BY_NAME["update_features"]))
    assert [item.upgrade_type for item in lifted.feature_updates] == [1, 1]


def test_every_field_that_a_newer_request_lost_is_known() -> None:
    """A field lost in an older request is out of a handler's sight but for `ctx.raw`: new ones must be looked at."""
    lost = set()
    for api, version in EVERY_VERSION:
        lost |= {(api.name, name) for name in lost_fields(request_class(api.key, version), newest_request(api))}
    assert lost == {
        ("produce", "name"),  # hot path
        ("fetch", "replica_id"),  # hot path
        ("fetch", "topic"),  # hot path
        ("metadata", "include_cluster_authorized_operations"),  # ctx.raw
        ("offset_commit", "retention_time"),  # ctx.raw
        ("offset_fetch", "group_id"),  # ctx.raw
        ("offset_fetch", "topics"),  # ctx.raw
        ("find_coordinator", "key"),  # ctx.raw
        ("leave_group", "member_id"),  # lift
        ("delete_topics", "topic_names"),  # lift
        ("update_features", "allow_downgrade"),  # Kafka's controller does not look at it
        *(("add_partitions_to_txn", f"v3_and_below_{name}") for name in OF_ONE_TRANSACTION),  # ctx.raw
    }


def test_every_field_that_a_newer_response_lost_is_known() -> None:
    lost = set()
    for api, version in EVERY_VERSION:
        lost |= {(api.name, name) for name in lost_fields(response_class(api.key, version), newest_response(api))}
    assert lost == {
        ("produce", "name"),  # hot path
        ("fetch", "topic"),  # hot path
        ("metadata", "cluster_authorized_operations"),  # attribute of the handler's own class
        *(("offset_fetch", name) for name in ("topics", "error_code")),  # the handler's own class
        *(
            ("find_coordinator", name) for name in ("error_code", "error_message", "node_id", "host", "port")
        ),  # the same
        ("update_features", "results"),  # attribute of the handler's own class
        ("streams_group_heartbeat", "acceptable_recovery_lag"),  # always 0
        ("add_partitions_to_txn", "results_by_topic_v3_and_below"),  # the handler's own class
    }


def lost_fields(old: Any, new: Any) -> set[str]:
    newer = {plan.name: plan for plan in field_plans(new)}
    lost = set()
    for plan in field_plans(old):
        if plan.name not in newer:
            lost.add(plan.name)
        elif plan.entity is not None:
            lost |= lost_fields(plan.entity, newer[plan.name].entity)
    return lost


def test_a_field_only_old_versions_have_is_taken_from_the_response_if_it_has_it() -> None:
    api = API_BY_NAME["metadata"]
    newest = default_entity(newest_response(api))
    plain, _ = kio_reader(response_class(3, 8))(bytes(encode_response(api, newest, 8, 1)), 8)
    assert plain.cluster_authorized_operations == -(2**31)
    richer = SimpleNamespace(
        **{field.name: getattr(newest, field.name) for field in fields(newest)}, cluster_authorized_operations=77
    )
    rich, _ = kio_reader(response_class(3, 8))(bytes(encode_response(api, richer, 8, 1)), 8)
    assert rich.cluster_authorized_operations == 77


def test_plain_milliseconds_do_for_durations() -> None:
    api = API_BY_NAME["metadata"]
    newest = default_entity(newest_response(api))
    given = SimpleNamespace(**{field.name: getattr(newest, field.name) for field in fields(newest)})
    given.throttle_time = 1234
    decoded, _ = kio_reader(newest_response(api))(bytes(encode_response(api, given, 13, 1)), 9)
    assert decoded.throttle_time.total_seconds() == 1.234


@each_version
def test_mutated_requests_are_read_or_refused_as_a_reader_without_haste_does(
    api: Api, version: int, generator: Any, kio_bytes: Any
) -> None:
    cls = request_class(api.key, version)
    make = generator((api.name, version))
    rng = random.Random(f"{api.name} {version}")
    for _ in range(40):
        body = mutated(kio_bytes(make.entity(cls)), rng, cut=1)
        assert outcome(entity_reader(cls, cls), body) == outcome(careful_reader(cls, cls), body)


def outcome(read: Read, body: bytes) -> Any:
    """What is read and where that ends, or what was wrong."""
    try:
        return read(body, 0)
    except DecodeError as error:
        assert str(error)
        return str(error)


@each_version
def test_a_length_that_lies_takes_no_memory(api: Api, version: int, generator: Any, kio_bytes: Any) -> None:
    body = kio_bytes(default_entity(request_class(api.key, version)))
    decode_request(api, version, body)  # what the first request loads and compiles is not counted
    tracemalloc.start()
    try:
        for at in range(len(body)):
            for huge in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\x80\0\0\0"):
                lying = body[:at] + huge + body[at + 1 :]
                try:
                    decode_request(api, version, lying)
                except DecodeError as error:
                    assert str(error)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(("sent", "read"), [(2**63 - 1, timedelta.max), (-(2**63), timedelta.min), (-1, -MILLISECOND)])
def test_durations_that_python_lacks_are_its_longest(sent: int, read: timedelta) -> None:
    body = b"\0\x01g" + bytes(4) + b"\0\x01m" + sent.to_bytes(8, "big", signed=True) + bytes(4)
    told = decode_request(API_BY_NAME["offset_commit"], 2, body).retention_time
    assert told // MILLISECOND == read // MILLISECOND
