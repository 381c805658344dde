"""The embedded consumer protocol, held to what Kafka 4.1's ConsumerProtocol wrote and how it read odd bytes."""

from __future__ import annotations

import pytest

from protocol.consumer_protocol import (
    Assignment,
    ImpossibleLengthError,
    SchemaError,
    Subscription,
    deserialize_assignment,
    deserialize_subscription,
    deserialize_version,
    serialize_assignment,
)

OWNED = (("a", (0,)), ("b", (0, 1)))
SUBSCRIBED = "00000002000161000162000000020102"
OWNED_BYTES = "0000000200016100000001 00000000 00016200000002 00000000 00000001"


@pytest.mark.parametrize(
    ("data", "subscription"),
    [
        ("0000" + SUBSCRIBED, Subscription(0, ("a", "b"), b"\1\2", ())),
        ("0001" + SUBSCRIBED + OWNED_BYTES, Subscription(1, ("a", "b"), b"\1\2", OWNED)),
        ("0002" + SUBSCRIBED + OWNED_BYTES + "00000004", Subscription(2, ("a", "b"), b"\1\2", OWNED, 4)),
        ("0003" + SUBSCRIBED + OWNED_BYTES + "000000040002726b", Subscription(3, ("a", "b"), b"\1\2", OWNED, 4, "rk")),
        ("0000 000000010001 61 ffffffff", Subscription(0, ("a",), None, ())),
        ("0003 000000010001 61 ffffffff 00000000 ffffffff ffff", Subscription(3, ("a",), None, ())),
    ],
    ids=["0", "1", "2", "3", "0 with nothing that it need not have", "3 with nothing that it need not have"],
)
def test_every_version_of_a_subscription_is_read(data: str, subscription: Subscription) -> None:
    assert deserialize_subscription(bytes.fromhex(data)) == subscription


@pytest.mark.parametrize(
    ("data", "subscription"),
    [
        ("0007 00000000 ffffffff 00000000 00000001 000172 aabb", Subscription(3, (), None, (), 1, "r")),
        ("0003 00000000 ffffffff 00000000 00000001 0000", Subscription(3, (), None, (), 1, None)),
        ("0003 00000000 ffffffff 00000000 00000001 fffe", Subscription(3, (), None, (), 1, None)),
        ("0000 00000000 fffffff0", Subscription(0, (), None, ())),
        ("0000 00000000 00000000 ff", Subscription(0, (), b"", ())),
        ("0000 00000001 000180 ffffffff", Subscription(0, ("\ufffd",), None, ())),
        ("0001 00000002 000161 000161 00000000 00000000", Subscription(1, ("a", "a"), b"", ())),
        (
            "0001 00000000 ffffffff 00000002 000161 00000001 00000003 000161 00000001 00000004",
            Subscription(1, (), None, (("a", (3,)), ("a", (4,)))),
        ),
    ],
    ids=["later version", "rack ''", "rack -2", "user data -16", "trailing", "not UTF-8", "topic twice", "owned twice"],
)
def test_odd_subscriptions_are_read_as_kafka_reads_them(data: str, subscription: Subscription) -> None:
    assert deserialize_subscription(bytes.fromhex(data)) == subscription


@pytest.mark.parametrize(
    "data",
    [
        "",
        "00",
        "ffff 0000",
        "0000",
        "0000 0000",
        "0000 00000001 000161",
        "0000 00000001 000261 61",
        "0001 00000000 ffffffff",
        "0002 00000000 ffffffff 00000000 000000",
        "0003 00000000 ffffffff 00000000 00000001 00",
    ],
)
def test_what_ends_too_early_is_no_subscription(data: str) -> None:
    with pytest.raises(SchemaError) as caught:
        deserialize_subscription(bytes.fromhex(data))
    assert caught.type is SchemaError


@pytest.mark.parametrize(
    "data",
    [
        "0000 ffffffff",
        "0000 00000001",
        "0000 00000001 0001",
        "0000 00000001 ffff",
        "0000 00000000 00000005 aa",
        "0000 000f4240",
        "0001 00000000 ffffffff 00000001",
        "0001 00000000 ffffffff ffffffff",
        "0001 00000000 ffffffff 00000001 000161 00000001",
        "0001 00000000 ffffffff 00000001 000161 ffffffff",
    ],
)
def test_lengths_that_cannot_be_are_told_apart(data: str) -> None:
    with pytest.raises(ImpossibleLengthError):
        deserialize_subscription(bytes.fromhex(data))


@pytest.mark.parametrize("version", range(4))
def test_assignments_are_read_and_written(version: int) -> None:
    data = version.to_bytes(2, "big") + bytes.fromhex(
        "00000002 000162 00000002 00000001 00000000 000161 00000001 00000000 ffffffff"
    )
    assigned = (("b", (1, 0)), ("a", (0,)))
    assert deserialize_assignment(data) == Assignment(version, assigned, None)
    assert serialize_assignment(version, assigned) == data


@pytest.mark.parametrize(
    ("data", "assignment"),
    [
        ("0009 00000000 ffffffff aa", Assignment(3, (), None)),
        ("0000 00000001 000161 00000002 00000003 00000003 00000001 55", Assignment(0, (("a", (3, 3)),), b"\x55")),
        ("0000 00000001 000161 00000000 00000000", Assignment(0, (("a", ()),), b"")),
        (
            "0000 00000002 000161 00000001 00000003 000161 00000001 00000004 ffffffff",
            Assignment(0, (("a", (3,)), ("a", (4,))), None),
        ),
    ],
    ids=["later version", "partition twice", "no partitions", "topic twice"],
)
def test_odd_assignments_are_read_as_kafka_reads_them(data: str, assignment: Assignment) -> None:
    assert deserialize_assignment(bytes.fromhex(data)) == assignment


@pytest.mark.parametrize("data", ["", "0000", "8000", "ffff 00000000", "0000 00000000"])
def test_what_ends_too_early_is_no_assignment(data: str) -> None:
    with pytest.raises(SchemaError) as caught:
        deserialize_assignment(bytes.fromhex(data))
    assert caught.type is SchemaError


def test_an_assignment_is_written_in_a_version_that_there_is() -> None:
    assert serialize_assignment(9, []) == bytes.fromhex("0003 00000000 ffffffff")
    with pytest.raises(SchemaError, match="-1"):
        serialize_assignment(-1, [])


def test_a_version_is_told_as_it_stands() -> None:
    assert [deserialize_version(data) for data in (b"\0\7", b"\xff\xff\0")] == [7, -1]
    with pytest.raises(SchemaError):
        deserialize_version(b"\0")
