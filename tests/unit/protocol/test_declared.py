"""Declared messages: what the types of their fields say is what is on the wire."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import pytest

from protocol.careful_reader import careful_reader
from protocol.declared import Bytes, Int16, Int32, Placed, Stored, String, plain, record
from protocol.primitives import DecodeError
from protocol.reader import entity_reader
from protocol.schema import field_plans, layout
from protocol.writer import entity_writer


@plain
class _Pair(NamedTuple):
    name: String
    numbers: tuple[Int16, ...]


class Part(NamedTuple):
    """A part, which came with version 1."""

    text: String | None
    data: Bytes


class Whole(NamedTuple):
    """One of each kind of field."""

    number: Int32
    old: Annotated[Int16, Placed(until=0)] = -1
    pairs: Annotated[dict[str, tuple[int, ...]], Stored(tuple[_Pair, ...], dict, dict.items)] = {}  # noqa: RUF012
    part: Annotated[Part | None, Placed(since=1)] = None
    tagged: Annotated[Part | None, Placed(tag=2, absent=Part("", b""))] = None
    size: Annotated[Int32, Placed(tag=1)] = 7


@record()
class Item:
    """A part of a dataclass."""

    name: String = ""


@record(200, highest=1)
class Message:
    """A dataclass of items."""

    items: tuple[Item, ...]
    later: Annotated[Int32, Placed(since=1)] = 3


def written(value: Any, version: int, flexible: bool = True) -> bytes:
    out, cls = bytearray(), value.__class__
    entity_writer(layout(cls, version, flexible), cls)(out, value)
    return bytes(out)


def read(cls: Any, data: bytes, version: int, flexible: bool = True) -> Any:
    kind = layout(cls, version, flexible)
    (value, end), careful = entity_reader(kind, cls)(data, 0), careful_reader(kind, cls)(data, 0)
    assert (value, end) == careful
    assert end == len(data)
    return value


FULL = Whole(1, 2, {"a": (3,)}, Part(None, b"x"), Part("t", b""), 9)


@pytest.mark.parametrize(
    ("version", "flexible", "encoded", "expected"),
    [
        (
            0,
            False,
            "00000001 0002 00000001 0001 61 00000001 0003",
            FULL._replace(part=None, tagged=Part("", b""), size=7),
        ),
        (
            0,
            True,
            "00000001 0002 02 0261 02 0003 00 02 01 04 00000009 02 05 01 0274 01 00",
            FULL._replace(part=None),
        ),
        (
            1,
            True,
            "00000001 02 0261 02 0003 00 01 00 0278 00 02 01 04 00000009 02 05 01 0274 01 00",
            FULL._replace(old=-1),
        ),
    ],
    ids=["not flexible", "flexible", "next version"],
)
def test_each_version_has_its_fields(version: int, flexible: bool, encoded: str, expected: Whole) -> None:
    data = bytes.fromhex(encoded)
    assert written(FULL, version, flexible) == data
    assert read(Whole, data, version, flexible) == expected


def test_tagged_fields_at_their_default_are_not_written_and_null_is() -> None:
    assert written(Whole(1), 1) == bytes.fromhex("00000001 01 ff 01 02 01 00")
    assert written(Whole(1, tagged=Part("", b"")), 1) == bytes.fromhex("00000001 01 ff 00")
    for value in (Whole(1), Whole(1, tagged=Part("", b""))):
        assert read(Whole, written(value, 1), 1) == value


def test_what_a_field_is_only_stored_as_is_read_as_a_plain_tuple() -> None:
    (pairs,) = (plan for plan in field_plans(Whole) if plan.name == "pairs")
    assert pairs.entity is _Pair
    assert type(entity_reader(layout(_Pair, 0), _Pair)(b"\x02a\x01\x00", 0)[0]) is tuple


def test_a_dataclass_is_declared_likewise() -> None:
    message = Message(items=(Item(name="a"), Item()), later=4)
    assert written(message, 0) == bytes.fromhex("03 0261 00 01 00 00")
    assert read(Message, written(message, 1), 1) == message
    assert read(Message, written(message, 0), 0) == Message(items=message.items)


def test_a_message_that_is_cut_short_is_refused() -> None:
    data = written(FULL, 1)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            entity_reader(layout(Whole, 1), Whole)(data[:size], 0)


def test_a_union_is_no_type_on_the_wire() -> None:
    class Either(NamedTuple):
        field: Int32 | String

    with pytest.raises(TypeError, match="more than one type"):
        field_plans(Either)
