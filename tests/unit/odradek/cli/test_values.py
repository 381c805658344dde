"""`--value avro` and its like: which schema reads and writes a key or value, and what is said where none does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from odradek.cli.general import General
from odradek.cli.output import Output
from odradek.cli.records import formatter, from_json
from odradek.cli.values import JSON, MOST_TOLD, Reader, Schemas, Writer, spec_of
from odradek.schemas.client import RegistryClient
from odradek.schemas.framing import with_prefix
from tests.doubles.registry_server import Stub, stub_registry

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})
PROTO = 'syntax = "proto3";\nmessage A { string id = 1; }\nmessage B { int64 n = 1; }\n'
ANNA, GUID = b"\x08Anna", "00000000-0000-0000-0000-000000000007"


class Record:
    """What `consume` gets of librdkafka."""

    def __init__(
        self, value: bytes | None, key: bytes | None = None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        self._value, self._key, self._headers = value, key, headers

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 5

    def timestamp(self) -> tuple[int, int]:
        return 1, 12

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return self._key

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return self._headers


@pytest.fixture
def stub() -> Iterator[Stub]:
    with stub_registry() as server:
        server.answers = {
            "/schemas/ids/7?subject=t-value": (200, {"schema": USER}),
            "/schemas/ids/7?subject=t-key": (200, {"schema": USER}),
            f"/schemas/guids/{GUID}": (200, {"schema": USER}),
            "/subjects/t-value/versions/latest": (
                200,
                {"subject": "t-value", "version": 2, "id": 7, "schema": USER, "schemaType": "AVRO"},
            ),
            "/schemas/ids/8?subject=t-value": (200, {"schema": PROTO, "schemaType": "PROTOBUF"}),
        }
        yield server


@pytest.fixture
def schemas(stub: Stub) -> Schemas:
    found = Schemas()
    found.client = RegistryClient(stub.url)
    return found


def reader(spec: str, schemas: Schemas, side: str = "value", out: Output | None = None) -> Reader:
    return Reader(spec_of(spec, "--value"), side, schemas, out or Output(as_json=False))


def read(spec: str, schemas: Schemas, record: Record, side: str = "value") -> Any:
    out = Output(as_json=False)
    found = reader(spec, schemas, side, out)(record)  # type: ignore[arg-type]
    assert (found is None) == bool(out.failures)
    return found


def test_the_id_in_front_or_the_guid_in_a_header_names_the_schema(stub: Stub, schemas: Schemas) -> None:
    assert read("avro", schemas, Record(with_prefix(7, ANNA))) == ({"name": "Anna"}, 7)
    in_header = [("__value_schema_id", b"\1" + bytes(15) + b"\7"), ("__key_schema_id", b"\0\0\0\0\7")]
    assert read("avro", schemas, Record(ANNA, headers=in_header)) == ({"name": "Anna"}, GUID)
    assert read("avro", schemas, Record(b"", ANNA, headers=in_header), "key") == ({"name": "Anna"}, 7)
    read("avro", schemas, Record(with_prefix(7, ANNA)))
    assert [path for path, *_ in stub.asked].count("/schemas/ids/7?subject=t-value") == 1, "a schema is asked for once"


def test_bytes_with_nothing_in_front_are_read_by_the_latest_or_a_file(schemas: Schemas, tmp_path: Path) -> None:
    file = tmp_path / "user.avsc"
    file.write_text(USER)
    for spec in ("avro:latest", "avro:latest:subject=t-value", f"avro:@{file}"):
        assert read(spec, schemas, Record(ANNA)) == ({"name": "Anna"}, None)
    (tmp_path / "a.proto").write_text(PROTO)
    message = read(f"protobuf:message=B:@{tmp_path}/a.proto", schemas, Record(b"\x08\x05"))
    assert message == ({"n": 5}, None)


def test_plain_json_has_no_schema_and_may_have_an_id_in_front(schemas: Schemas) -> None:
    for content in (b'{"a": 1}', with_prefix(3, b'{"a": 1}')):
        assert read("json", schemas, Record(content)) == ({"a": 1}, None)


@pytest.mark.parametrize(
    ("spec", "content", "why"),
    [
        ("avro", b"Anna", "no schema prefix"),
        ("avro", with_prefix(9, ANNA), "schema id 9 is unknown"),
        ("avro", with_prefix(7, b"\x08A"), "does not fit schema 7: "),
        (
            "avro",
            with_prefix(7, ANNA + b"x"),
            "does not fit schema 7: the bytes are not of the schema: 1 are left over",
        ),
        ("avro", with_prefix(8, b"\0"), "schema 8 is one of Protobuf: protobuf reads and writes it"),
        ("protobuf:message=B", with_prefix(8, b"\0"), "does not fit schema 8: it is a A, and B is wanted"),
        ("avro:latest", with_prefix(7, ANNA), "it begins as if it had the id 7 in front"),
        ("json", b"{", "it is no JSON"),
    ],
)
def test_why_a_value_is_not_read_is_said_and_its_bytes_are_printed(
    schemas: Schemas, capfd: pytest.CaptureFixture[str], spec: str, content: bytes, why: str
) -> None:
    out = Output(as_json=False)
    record: Any = Record(content)
    written = formatter("%v", value=reader(spec, schemas, out=out))(record)
    assert written == content.decode("utf-8", "backslashreplace")
    assert out.failures == 1
    said = capfd.readouterr().err
    assert said.startswith("Error: value of t-0 at offset 5: ") and why in said


def test_of_many_values_only_some_are_told_one_by_one(schemas: Schemas, capfd: pytest.CaptureFixture[str]) -> None:
    class Numbered(Record):
        number = 0

        def offset(self) -> int:
            return self.number

    out, record = Output(as_json=False), Numbered(b"x")
    each = reader("avro", schemas, out=out)
    for record.number in range(MOST_TOLD + 5):
        assert each(record) is None  # type: ignore[arg-type]
    each.end()
    assert len(capfd.readouterr().err.splitlines()) == MOST_TOLD + 1
    assert each.untold == 5


def test_a_registry_that_is_away_ends_the_command(schemas: Schemas, stub: Stub) -> None:
    stub.answers = {"/schemas/ids/7?subject=t-value": (503, {"message": "later"})}
    with pytest.raises(click.ClickException, match=r"no schema registry answers: .*later"):
        read("avro", schemas, Record(with_prefix(7, ANNA)))
    with pytest.raises(click.ClickException, match="has no subject t-value: `odradek registry register t-value FILE`"):
        read("avro:latest", schemas, Record(ANNA))
    with pytest.raises(click.ClickException, match="No such file"):
        read("avro:@/none.avsc", schemas, Record(ANNA))


def test_null_is_null_and_forms_have_json(schemas: Schemas) -> None:
    each = reader("avro", schemas)
    null: Any = Record(None)
    assert each(null) is None
    assert formatter("%v", null="NIL", value=each)(null) == "NIL"
    record: Any = Record(with_prefix(7, b"\x04\xc3\xa9"), with_prefix(7, ANNA))
    assert formatter("text", value=each)(record) == '{"name": "é"}\n'
    assert json.loads(formatter("json", key=reader("avro", schemas, "key"), value=each)(record)) == {
        "topic": "t",
        "partition": 0,
        "offset": 5,
        "timestamp": 12,
        "key": {"name": "Anna"},
        "value": {"name": "é"},
        "headers": [],
        "key_schema": 7,
        "value_schema": 7,
    }
    half: Any = Record(b'"\\ud800"')
    assert formatter("text", value=reader("json", schemas))(half) == '"\\ud800"\n'
    with pytest.raises(click.UsageError, match="expected text or json"):
        formatter("hex", value=each)


def written(spec: str, schemas: Schemas, value: Any) -> bytes:
    return Writer(spec_of(spec, "--value", with_id=True), "t", "value", schemas).of_text(json.dumps(value), "value")


def test_what_is_written_has_the_id_in_front_or_nothing(schemas: Schemas, tmp_path: Path) -> None:
    (tmp_path / "a.proto").write_text(PROTO)
    assert written("avro", schemas, {"name": "Anna"}) == with_prefix(7, ANNA)
    assert written("avro:id=7", schemas, {"name": "Anna"}) == with_prefix(7, ANNA)
    assert written("avro:latest", schemas, {"name": "Anna"}) == ANNA
    assert written("protobuf:id=8:message=B", schemas, {"n": 5}) == with_prefix(8, b"\2\2\x08\5")
    assert written(f"protobuf:message=B:@{tmp_path}/a.proto", schemas, {"n": 5}) == b"\x08\5"
    assert written("json", schemas, {"n": "é"}) == '{"n": "é"}'.encode()


@pytest.mark.parametrize(
    ("spec", "text", "why"),
    [
        ("avro", '{"nom": "A"}', "value does not fit the schema: the value has no field nom"),
        ("avro", "Anna", r"is no JSON: .*a text is written \"so\""),
        ("avro:id=9", "{}", "schema id 9 is unknown"),
        ("avro:id=8", "{}", "schema 8 is one of Protobuf"),
        ("protobuf:id=8:message=C", "{}", "the schema has no message C: expected A, B"),
        ("jsonschema", "{}", "of subject t-value is one of Avro"),
        ("avro:subject=x", "{}", "has no subject x"),
    ],
)
def test_what_does_not_fit_is_not_written(schemas: Schemas, spec: str, text: str, why: str) -> None:
    with pytest.raises(click.ClickException, match=why):
        Writer(spec_of(spec, "--value", with_id=True), "t", "value", schemas).of_text(text, "value")


def test_lines_of_consume_are_what_produce_takes(schemas: Schemas) -> None:
    write = Writer(spec_of("avro", "--value"), "t", "value", schemas)
    line = '{"key": {"a": 1}, "value": {"name": "Anna"}}'
    assert from_json(line, 1, value=write.of_value) == {
        "key": b'{"a": 1}',
        "value": with_prefix(7, ANNA),
        "headers": [],
    }
    assert from_json('{"value": null}', 1, value=write.of_value)["value"] is None
    with pytest.raises(click.ClickException, match="line 3: value does not fit the schema"):
        from_json('{"value": {"base64": "AA=="}}', 3, value=write.of_value)


@pytest.mark.parametrize(
    "text", ["avr", "avro:", "avro:first", "avro:id=x", "avro:id=1:latest", "avro:@f:id=1", "json:x"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected avro, jsonschema or protobuf"):
        spec_of(text, "--value", with_id=True)


def test_only_what_is_written_may_have_a_schema_by_id() -> None:
    assert spec_of("json", "--value") is JSON
    assert spec_of("avro:id=7", "--value", with_id=True).id == 7
    with pytest.raises(click.BadParameter):
        spec_of("avro:id=7", "--value")


def test_the_registry_is_not_asked_for_what_needs_none(schemas: Schemas, stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "u.avsc").write_text(USER)
    alone = Schemas()
    assert written(f"avro:@{tmp_path}/u.avsc", alone, {"name": "Anna"}) == ANNA
    assert read("json", alone, Record(b"1")) == (1, None)
    assert "client" not in vars(alone)
    assert General().registry is None and not stub.asked
