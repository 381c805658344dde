"""What the registry answers, call by call: Confluent's paths, values and error codes."""

from __future__ import annotations

from typing import Any

import pytest

from broker.registry.rest import ROWS
from tests.unit.broker.registry.rig import Asking, body, record, registry

A, B = record("a:int"), record("a:int", 'b:string="x"')
WRONG = record("other:int")


async def filled(asking: Asking) -> None:
    """`s` has versions 1 and 2 with the ids 1 and 2, `gone` is soft-deleted (id 1), `t` is version 1 (id 3)."""
    await asking.register("s", A)
    await asking.register("s", B)
    await asking.register("gone", A)
    await asking.ask("DELETE", "/subjects/gone")
    await asking.register("t", record("t:long"))


ANSWERS: list[tuple[str, str, Any, Any]] = [
    ("GET", "/", None, {}),
    ("GET", "/subjects", None, ["s", "t"]),
    ("GET", "/subjects?deleted=true", None, ["gone", "s", "t"]),
    ("GET", "/subjects?deletedOnly=True", None, ["gone"]),
    ("GET", "/subjects?subjectPrefix=s", None, ["s"]),
    ("GET", "/subjects?offset=1&limit=1", None, ["t"]),
    ("GET", "/subjects?offset=5", None, []),
    ("GET", "/subjects/s/versions", None, [1, 2]),
    ("GET", "/subjects/gone/versions?deleted=true", None, [1]),
    ("GET", "/subjects/gone/versions?deleted=true&deletedAsNegative=true", None, [-1]),
    ("GET", "/subjects?limit=0", None, ["s", "t"]),
    ("GET", "/subjects/", None, ["s", "t"]),
    ("HEAD", "/subjects", None, ["s", "t"]),
    ("POST", "/", {}, {}),
    ("GET", "/subjects/s/versions?deletedOnly=true", None, []),
    ("GET", "/subjects/s/versions/1/referencedby", None, []),
    ("GET", "/schemas/types", None, ["JSON", "PROTOBUF", "AVRO"]),
    ("GET", "/schemas/ids/1/subjects", None, ["s"]),
    ("GET", "/schemas/ids/1/subjects?deleted=true", None, ["s", "gone"]),
    (
        "GET",
        "/schemas/ids/1/versions?deleted=true",
        None,
        [{"subject": "s", "version": 1}, {"subject": "gone", "version": 1}],
    ),
    ("GET", "/contexts", None, ["."]),
    ("GET", "/contexts?contextPrefix=.x", None, []),
    ("GET", "/contexts?offset=1", None, []),
    ("GET", "/config", None, {"compatibilityLevel": "BACKWARD"}),
    ("GET", "/config/s?defaultToGlobal=true", None, {"compatibilityLevel": "BACKWARD"}),
    ("PUT", "/config/s", {"compatibility": "full"}, {"compatibility": "FULL"}),
    ("PUT", "/config", {"compatibility": "NONE"}, {"compatibility": "NONE"}),
    ("DELETE", "/config", None, {"compatibilityLevel": "BACKWARD"}),
    ("GET", "/mode", None, {"mode": "READWRITE"}),
    ("GET", "/mode/s?defaultToGlobal=true", None, {"mode": "READWRITE"}),
    ("PUT", "/mode/s", {"mode": "READONLY"}, {"mode": "READONLY"}),
    ("POST", "/compatibility/subjects/s/versions/latest", body(A), {"is_compatible": True}),
    ("POST", "/compatibility/subjects/s/versions/1", body(WRONG), {"is_compatible": False}),
    ("POST", "/compatibility/subjects/s/versions", body(B), {"is_compatible": True}),
    ("POST", "/compatibility/subjects/none/versions/latest", body(A), {"is_compatible": True}),
    ("POST", "/compatibility/subjects/none/versions", body(A), {"is_compatible": True}),
    ("DELETE", "/subjects/s/versions/1", None, 1),
    ("DELETE", "/subjects/s/versions/latest", None, 2),
    ("DELETE", "/subjects/s", None, [1, 2]),
    ("DELETE", "/subjects/gone?permanent=true", None, [1]),
    ("DELETE", "/subjects/gone/versions/1?permanent=true", None, 1),
]

ERRORS: list[tuple[str, str, Any, int]] = [
    ("GET", "/nothing", None, 404),
    ("GET", "/schemas/ids/x", None, 404),
    ("PATCH", "/subjects", None, 405),
    ("GET", "/associations/resources/-/t?resourceType=topic&associationType=value", None, 404),
    ("GET", "/subjects?limit=x", None, 400),
    ("GET", "/subjects/none/versions", None, 40401),
    ("GET", "/subjects/gone/versions", None, 40401),
    ("GET", "/subjects/gone/versions?deletedAsNegative=true", None, 40401),
    ("GET", "/subjects/gone/versions/latest?deleted=true", None, 40402),
    ("DELETE", "/subjects/gone/versions/latest?permanent=true", None, 40402),
    ("GET", "/subjects/none/metadata?key=owner&value=me", None, 40401),
    ("GET", "/subjects/s/metadata?key=owner&value=me", None, 40403),
    ("GET", "/subjects//versions", None, 404),
    ("GET", "/contexts/a:b/subjects", None, 400),
    ("GET", "/subjects/none/versions/1", None, 40401),
    ("GET", "/subjects/s/versions/3", None, 40402),
    ("GET", "/subjects/s/versions/0", None, 42202),
    ("GET", "/subjects/s/versions/-2", None, 42202),
    ("GET", "/subjects/s/versions/first", None, 42202),
    ("GET", "/subjects/s/versions/3/schema", None, 40402),
    ("GET", "/subjects/none/versions/1/referencedby", None, 40401),
    ("GET", "/schemas/ids/9", None, 40403),
    ("GET", "/schemas/ids/9/subjects", None, 40403),
    ("GET", "/schemas/guids/no-guid", None, 40403),
    ("POST", "/subjects/none", body(A), 40401),
    ("POST", "/subjects/s", body(WRONG), 40403),
    ("POST", "/subjects/gone", body(A), 40401),
    ("POST", "/subjects/s", None, 422),
    ("POST", "/subjects/s", body("{"), 42201),
    ("POST", "/subjects/s/versions", body(WRONG), 40901),
    ("POST", "/subjects/s/versions", body("{"), 42201),
    ("POST", "/subjects/s/versions", body(" x"), 42201),
    ("POST", "/subjects/n/versions", body(""), 42201),
    ("POST", "/subjects/s/versions", {"schema": 5}, 422),
    ("POST", "/subjects/s/versions", [], 422),
    ("POST", "/subjects/s/versions", body(A, schemaType="XML"), 42201),
    ("POST", "/subjects/n/versions", body(A, version=2), 42201),
    ("POST", "/subjects/n/versions", body(A, id=7), 42205),
    ("POST", "/subjects/n/versions", body(A, version="x"), 422),
    ("POST", "/subjects/n/versions", body(A, references=[{"name": "x"}]), 422),
    ("POST", "/subjects/n/versions", body(A, references=5), 422),
    ("POST", "/subjects/n/versions", body({"$schema": {}}, schemaType="JSON"), 42201),
    ("POST", "/subjects/n/versions", body('{"minimum": 1e999}', schemaType="JSON"), 42201),
    ("POST", "/subjects/n/versions", body('{"default": NaN}', schemaType="JSON"), 42201),
    ("POST", "/subjects/n/versions", body(A, references=[{"name": "x", "subject": "no", "version": 1}]), 42201),
    ("POST", "/subjects/a%01b/versions", body(A), 42208),
    ("POST", "/subjects/__GLOBAL/versions", body(A), 42208),
    (
        "POST",
        "/subjects/n/versions",
        body({"type": "record", "name": "R", "fields": [], "doc": "x" * 1_000_000}),
        42209,
    ),
    ("POST", "/compatibility/subjects/s/versions/9", body(A), 40402),
    ("POST", "/compatibility/subjects/none/versions/1", body(A), 40402),
    ("POST", "/compatibility/subjects/s/versions/x", body(A), 42202),
    ("POST", "/compatibility/subjects/s/versions/latest", body("{"), 42201),
    ("DELETE", "/subjects/none", None, 40401),
    ("DELETE", "/subjects/gone", None, 40404),
    ("DELETE", "/subjects/s?permanent=true", None, 40405),
    ("DELETE", "/subjects/gone/versions/1", None, 40406),
    ("DELETE", "/subjects/s/versions/1?permanent=true", None, 40407),
    ("DELETE", "/subjects/s/versions/9", None, 40402),
    ("DELETE", "/subjects/none/versions/1", None, 40401),
    ("GET", "/config/s", None, 40408),
    ("PUT", "/config/s", {"compatibility": "best"}, 42203),
    ("PUT", "/config/s", {"alias": 1}, 422),
    ("PUT", "/config/s", {"validateRules": True}, 422),
    ("PUT", "/config/s", {"defaultMetadata": {"tags": 5}}, 422),
    ("PUT", "/config/s", {"overrideRuleSet": {"domainRules": [{"name": "a"}, {"name": "a"}]}}, 42210),
    ("POST", "/subjects/n/versions", body(A, metadata={"sensitive": [1]}), 422),
    ("POST", "/subjects/n/versions", body(A, ruleSet={"domainRules": 1}), 42210),
    ("PUT", "/config/s", {"normalize": 1}, 422),
    ("PUT", "/config/s", {"compatibilityPolicy": "some"}, 422),
    ("PUT", "/config/s", None, 422),
    ("DELETE", "/config/s", None, 40401),
    ("GET", "/mode/s", None, 40409),
    ("PUT", "/mode/s", {"mode": "best"}, 42204),
    ("PUT", "/mode/s", {"mode": "FORWARD"}, 42204),
    ("PUT", "/mode/s", {"mode": "IMPORT"}, 42205),
    ("PUT", "/mode", {"mode": "IMPORT"}, 42205),
    ("DELETE", "/mode/s", None, 40401),
]


@pytest.mark.parametrize(("method", "path", "given", "expected"), ANSWERS, ids=lambda one: str(one)[:60])
async def test_an_answer(method: str, path: str, given: Any, expected: Any) -> None:
    async with registry() as asking:
        await filled(asking)
        assert await asking.ask(method, path, given) == expected


@pytest.mark.parametrize(("method", "path", "given", "code"), ERRORS, ids=lambda one: str(one)[:60])
async def test_an_error(method: str, path: str, given: Any, code: int) -> None:
    async with registry() as asking:
        await filled(asking)
        assert await asking.code(method, path, given) == code


async def test_a_version_has_all_that_clients_look_for() -> None:
    async with registry() as asking:
        registered = await asking.register("s", A)
        version = await asking.ask("GET", "/subjects/s/versions/latest")
        assert registered == {name: value for name, value in version.items() if name != "schema"}
        text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
        assert version == {
            "subject": "s",
            "version": 1,
            "id": 1,
            "guid": version["guid"],
            "schemaType": "AVRO",
            "schema": text,
        }
        by_id = await asking.ask("GET", "/schemas/ids/1?subject=s&fetchMaxId=true")
        assert by_id == {key: value for key, value in version.items() if key != "id"} | {"maxId": 1}
        by_guid = await asking.ask("GET", f"/schemas/guids/{version['guid']}")
        assert by_guid == {"guid": version["guid"], "schemaType": "AVRO", "schema": text}
        assert await asking.ask("GET", f"/schemas/guids/{version['guid']}/ids") == [{"context": ".", "id": 1}]
        for path in ("/schemas/ids/1/schema", "/subjects/s/versions/1/schema"):
            assert await asking.ask("GET", path) == text
        assert await asking.ask("POST", "/subjects/s?normalize=False&deleted=False", body(A)) == version
        assert await asking.ask("GET", "/schemas?latestOnly=true") == [version]


async def test_a_verbose_check_says_why() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        answer = await asking.ask("POST", "/compatibility/subjects/s/versions/1?verbose=true", body(WRONG))
        assert not answer["is_compatible"]
        assert "other" in answer["messages"][0]
        wrong = await asking.ask("POST", "/compatibility/subjects/s/versions/1?verbose=true", body("{"))
        assert not wrong["is_compatible"]
        fits = await asking.ask("POST", "/compatibility/subjects/s/versions/1?verbose=true", body(A))
        assert fits == {"is_compatible": True, "messages": []}


async def test_names_with_a_slash_and_other_alphabets_are_subjects() -> None:
    async with registry() as asking:
        for subject in ("a/b-value", "naïve ☃-value", "50%-value"):
            await asking.register(subject, A)
        assert await asking.ask("GET", "/subjects") == ["50%-value", "a/b-value", "naïve ☃-value"]


def test_no_two_rows_answer_the_same() -> None:
    assert len({(row.method, row.path) for row in ROWS}) == len(ROWS)
