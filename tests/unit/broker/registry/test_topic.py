"""The topic behind the registry: Confluent's records, who reads them, restarts, crashes, and others that write."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from broker.registry import schemas
from broker.registry.calls import Asked
from broker.registry.formats.parsed import Given, Parsed
from broker.registry.records import Written, packed
from broker.registry.registry import Registry
from broker.registry.rights import Rights
from broker.registry.state import State
from broker.testkit.control.topic_reader import TopicReader
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.registry.rig import Asking, body, record, registry
from tests.unit.broker.testkit.control.test_snapshots import call

A, B = record("a:int"), record("a:int", "b:int=1")


async def contents(asking: Asking) -> list[tuple[Any, Any]]:
    """The records of the topic, key and value as JSON, or as bytes if they are none."""
    reader = TopicReader(asking.rig.node, "_schemas", {0: 0}, committed=False)
    found = await reader.read(10_000)
    return [(_json(each.record.key), _json(each.record.value)) for each in found]


def _json(content: bytes | None) -> Any:
    try:
        return None if content is None else json.loads(content)
    except ValueError:
        return content


def write(asking: Asking, *records: tuple[bytes | None, bytes | None]) -> None:
    """Write to the topic as somebody else does."""
    partition = asking.rig.node.replicas.get("_schemas", 0)
    assert partition is not None
    batch = build_batch(Record(at, 1, key, value) for at, (key, value) in enumerate(records))
    partition.append(memoryview(batch), AppendOrigin.CLIENT, 1)


async def test_the_records_are_confluents() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        await asking.register(":.c:s", '"string"')
        await asking.ask("PUT", "/config", {"compatibility": "NONE"})
        await asking.ask("PUT", "/config/s", {"compatibility": "FULL"})
        await asking.ask("PUT", "/mode/s", {"mode": "READONLY"})
        await asking.ask("PUT", "/mode/s", {"mode": "READWRITE"})
        await asking.ask("DELETE", "/subjects/s/versions/1")
        await asking.register("s", B)
        await asking.ask("DELETE", "/subjects/s")
        text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
        found = await contents(asking)
        schema = {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}
        value = {"subject": "s", "version": 1, "id": 1, "md5": found[0][1]["md5"], "schema": text, "deleted": False}
        context = {"tenant": "default", "context": ".c"}
        assert found[:3] == [
            (schema, value),
            ({"keytype": "CONTEXT", **context, "magic": 0}, context),
            ({**schema, "subject": ":.c:s"}, {**found[2][1], "subject": ":.c:s", "version": 1, "id": 1}),
        ]
        level = {"keytype": "CONFIG", "subject": "s", "magic": 0}
        assert found[3:8] == [
            ({**level, "subject": None}, {"compatibilityLevel": "NONE"}),
            (level, {"subject": "s", "compatibilityLevel": "FULL"}),
            ({**level, "keytype": "MODE"}, {"subject": "s", "mode": "READONLY"}),
            ({**level, "keytype": "MODE"}, {"subject": "s", "mode": "READWRITE"}),
            (schema, {**value, "deleted": True}),
        ]
        deleted = {"subject": "s", "version": 2}
        assert found[9:] == [({"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}, deleted)]
        keys = [packed(key) for key, _ in found]
        assert keys[0] == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
        topic = asking.rig.node.cluster.cache.topic("_schemas")
        assert topic is not None and topic.partition_count == 1
        assert dict(asking.rig.node.cluster.cache.topic_configs("_schemas")) == {"cleanup.policy": "compact"}


async def test_what_others_wrote_is_understood_and_kept_with_what_is_not_known_here() -> None:
    async with registry() as asking:
        await asking.register("other", '"int"')
        theirs = {
            "subject": "s",
            "version": 3,
            "id": 700,
            "schemaType": "JSON",
            "references": [],
            "metadata": {"properties": {"owner": "me"}},
            "schema": '{"type": "object"}',
            "deleted": False,
            "offset": 5,
            "ts": 17,
            "later": {"field": [1]},
        }
        key = b'{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}'
        write(
            asking,
            (b'{"keytype":"NOOP","magic":0}', None),
            (b'{"keytype":"ASSOCIATION","magic":0,"subject":"s"}', b'{"x":1}'),
            (b"no json", b"no json"),
            (b'{"keytype":"SCHEMA","subject":"broken","version":"x","magic":1}', b'{"id":"y"}'),
            (key, packed(theirs)),
        )
        version = await asking.ask("GET", "/subjects/s/versions/latest")
        assert (version["id"], version["schemaType"], version["schema"]) == (700, "JSON", '{"type": "object"}')
        assert version["metadata"] == {"properties": {"owner": "me"}}
        assert (await asking.register("s", '{"type":"object"}', schemaType="JSON", metadata=version["metadata"]))[
            "id"
        ] == 700
        await asking.ask("DELETE", "/subjects/s/versions/3")
        found = await contents(asking)
        assert found[-1] == (json.loads(key), {**theirs, "deleted": True})
        assert (await asking.register("next", '"long"'))["id"] == 701
        assert await asking.ask("GET", "/subjects") == ["next", "other"]


@pytest.mark.parametrize(
    "value",
    [
        {"metadata": "x"},
        {"metadata": {"tags": 5}},
        {"id": 1 << 40},
        {"references": [{"name": "a", "subject": "s", "version": 1 << 70}]},
        {"references": 5},
        {"version": "x", "md5": 5},
    ],
    ids=str,
)
async def test_a_record_that_is_none_of_a_registry_keeps_nobody_from_the_others(value: dict[str, Any]) -> None:
    async with registry() as asking:
        await asking.register("s", A)
        key = b'{"keytype":"SCHEMA","subject":"odd","version":1,"magic":1}'
        content = {"subject": "odd", "version": 1, "id": 9, "schema": '"int"', "deleted": False, **value}
        maximum = b'{"keytype":"NOOP","magic":0}', packed({"maxIds": {".": 1 << 40}})
        write(asking, (key, packed(content)), maximum, (maximum[0], b'{"maxIds":5}'))
        assert await asking.ask("GET", "/subjects") == ["s"]
        assert (await asking.register("s", B))["id"] == 2


async def test_a_schema_whose_hash_is_none_has_its_own() -> None:
    async with registry() as asking:
        registered = await asking.register("s", A)
        text = (await asking.ask("GET", "/subjects/s/versions/1"))["schema"]
        key = b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}'
        write(asking, (key, packed({"subject": "t", "version": 1, "id": 1, "schema": text, "md5": "AAAA"})))
        assert (await asking.ask("GET", "/subjects/t/versions/1"))["guid"] == registered["guid"]


async def test_a_subject_of_many_versions_is_parsed_once_to_find_what_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schemas, "KEPT", 0)
    async with registry({"schema.registry.schema.compatibility.level": "none"}) as asking:
        parsed: list[str] = []
        parse = asking.registry.schemas.parse

        def counted(kind: str, given: Given) -> Parsed:
            parsed.append(given.text)
            return parse(kind, given)

        monkeypatch.setattr(asking.registry.schemas, "parse", counted)
        for number in range(30):
            await asking.register("s", record(f"f{number}:int"))
        assert len(parsed) <= 2 * 30


async def test_ids_are_never_given_again_not_even_after_all_is_removed_and_compacted() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        assert (await asking.register("s", B))["id"] == 2
        await asking.ask("DELETE", "/subjects/s")
        await asking.ask("DELETE", "/subjects/s?permanent=true")
        compacted: dict[bytes, Any] = {}
        for key, value in await contents(asking):
            compacted[packed(key)] = value
        state = State()
        for packed_key, value in compacted.items():
            if value is not None:  # markers of deletes go in time
                state.apply(packed_key, packed(value))
        assert (state.subjects, state.highest) == ({}, {".": 2})
        again = Asking(asking.rig, Registry(asking.rig.node))
        assert await again.register("s", A) == {**(await again.register("s", A)), "id": 3, "version": 1}


async def test_a_soft_deleted_schema_comes_back_with_its_id_and_the_next_number() -> None:
    async with registry() as asking:
        first = await asking.register("s", A)
        await asking.ask("DELETE", "/subjects/s/versions/1")
        assert (await asking.ask("GET", "/schemas/ids/1?subject=s"))["version"] == 1
        again = await asking.register("s", A)
        assert (again["id"], again["version"], again["guid"]) == (1, 2, first["guid"])
        assert await asking.ask("GET", "/subjects/s/versions?deleted=true") == [2]


async def test_spaces_make_no_new_version_and_normalize_makes_order_no_difference() -> None:
    async with registry() as asking:
        first = await asking.register("s", '{"type": "object", "title": "T"}', schemaType="JSON")
        assert await asking.register("s", '{"type":"object","title":"T"}', schemaType="JSON") == first
        other = body('{"title":"T","type":"object"}', schemaType="JSON")
        assert (await asking.ask("POST", "/compatibility/subjects/s/versions/1", other))["is_compatible"]
        assert await asking.code("POST", "/subjects/s", other) == 40403
        normal = await asking.ask("POST", "/subjects/n/versions?normalize=true", other)
        again = body('{"type":"object","title":"T"}', schemaType="JSON")
        assert await asking.ask("POST", "/subjects/n/versions?normalize=True", again) == normal
        assert (await asking.ask("GET", "/subjects/n/versions/1"))["schema"] == '{"title":"T","type":"object"}'


async def test_references_hold_what_they_refer_to() -> None:
    async with registry() as asking:
        await asking.register("user", record("a:int", name="User"))
        reference = {"name": "User", "subject": "user", "version": -1}
        order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]}
        made = await asking.register("order", order, references=[reference])
        assert made["references"] == [{**reference, "version": 1}]
        assert await asking.ask("GET", "/subjects/user/versions/1/referencedby") == [made["id"]]
        for path in ("/subjects/user", "/subjects/user/versions/1"):
            assert await asking.code("DELETE", path) == 42206
        await asking.ask("DELETE", "/subjects/order")
        await asking.ask("DELETE", "/subjects/user")
        assert await asking.code("DELETE", "/subjects/user?permanent=true") == 42206
        await asking.ask("DELETE", "/subjects/order?permanent=true")
        assert await asking.ask("DELETE", "/subjects/user?permanent=true") == [1]
        whole = {**order, "fields": [{"name": "by", "type": record("a:int", name="User")}]}
        await asking.register("user", record("a:int", name="User"))
        await asking.register("order", order, references=[reference])
        assert (await asking.ask("POST", "/subjects/order", body(whole)))["version"] == 1


async def test_contexts_have_ids_of_their_own() -> None:
    async with registry() as asking:
        assert (await asking.register("s", A))["id"] == 1
        assert (await asking.register(":.c:s", B))["id"] == 1
        assert (await asking.register(":.:s", A))["version"] == 1
        assert await asking.ask("GET", "/contexts") == [".", ".c"]
        assert await asking.ask("GET", "/subjects") == [":.c:s", "s"]
        assert await asking.ask("GET", "/subjects?subjectPrefix=:.c:") == [":.c:s"]
        assert await asking.ask("GET", "/contexts/.c/subjects") == [":.c:s"]
        by_path = await asking.ask("GET", "/contexts/.c/subjects/s/versions/1")
        assert by_path == await asking.ask("GET", "/subjects/:.c:s/versions/1")
        assert (await asking.ask("GET", "/schemas/ids/1?subject="))["subject"] == "s"
        assert (await asking.ask("GET", "/schemas/ids/1?subject=:.c:s"))["subject"] == ":.c:s"
        assert (await asking.ask("GET", "/contexts/c/schemas/ids/1"))["subject"] == ":.c:s"
        await asking.register(":.c:only", '"string"')
        assert (await asking.ask("GET", "/schemas/ids/2?subject=only"))["subject"] == ":.c:only"
        assert (await asking.ask("POST", "/subjects/only", body('"string"')))["subject"] == ":.c:only"
        assert (await asking.ask("GET", "/subjects/only/versions/latest"))["subject"] == ":.c:only"
        refers = [{"name": "R", "subject": "s", "version": 1}]
        await asking.register(":.c:refers", record("r:R", name="S"), references=refers)
        path = "/subjects/:.c:refers/versions/1"
        assert (await asking.ask("GET", path))["references"] == refers
        assert (await asking.ask("GET", f"{path}?referenceFormat=qualified"))["references"] == [
            {**refers[0], "subject": ":.c:s"}
        ]
        assert (await asking.ask("GET", "/schemas?subjectPrefix=:*:on"))[0]["subject"] == ":.c:only"


async def test_levels_and_modes_of_a_context_are_those_of_its_subjects() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        await asking.register(":.c:s", B)
        await asking.ask("PUT", "/contexts/.c/config", {"compatibility": "NONE"})
        await asking.ask("PUT", "/contexts/.d/mode", {"mode": "READONLY"})
        assert await asking.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
        assert await asking.ask("GET", "/mode") == {"mode": "READWRITE"}
        assert await asking.ask("GET", "/contexts/.c/config") == {"compatibilityLevel": "NONE"}
        assert await asking.ask("GET", "/mode/:.d:") == {"mode": "READONLY"}
        assert (await asking.ask("GET", "/config/:.c:s?defaultToGlobal=true")) == {"compatibilityLevel": "NONE"}
        assert (await asking.register(":.c:s", '"string"'))["version"] == 2
        assert await asking.code("POST", "/subjects/s/versions", body('"string"')) == 40901
        await asking.ask("PUT", "/config/:.__GLOBAL:", {"compatibility": "NONE"})
        assert (await asking.register("s", '"string"'))["version"] == 2


async def test_modes_decide_what_is_written() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        await asking.ask("PUT", "/mode/s", {"mode": "READONLY"})
        for method, path, given in (
            ("POST", "/subjects/s/versions", body(B)),
            ("DELETE", "/subjects/s", None),
            ("DELETE", "/subjects/s/versions/1", None),
            ("PUT", "/config/s", {"compatibility": "NONE"}),
        ):
            assert await asking.code(method, path, given) == 42205
        assert (await asking.register("s", A))["version"] == 1  # as it is there already
        await asking.ask("PUT", "/mode/s", {"mode": None})
        assert await asking.code("GET", "/mode/s") == 40409
        await asking.ask("PUT", "/mode/new", {"mode": "IMPORT"})
        assert await asking.code("POST", "/subjects/new/versions", body(B)) == 42205
        imported = await asking.ask("POST", "/subjects/new/versions", body(B, id=100, version=7))
        assert (imported["id"], imported["version"]) == (100, 7)
        assert await asking.code("POST", "/subjects/new/versions", body('"int"', id=100)) == 42205
        assert await asking.ask("PUT", "/mode?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
        assert await asking.ask("GET", "/mode/s?defaultToGlobal=true") == {"mode": "IMPORT"}
    async with registry({"schema.registry.mode.mutability": "false"}) as asking:
        assert await asking.code("PUT", "/mode", {"mode": "READONLY"}) == 42205


async def test_a_topic_that_would_lose_schemas_is_refused() -> None:
    async with registry() as asking:
        await asking.rig.create("_schemas", cleanup_policy="delete")
        assert await asking.code("GET", "/subjects") == 50001
    async with registry() as asking:
        await asking.rig.create("_schemas", partitions=2, cleanup_policy="compact")
        assert await asking.code("POST", "/subjects/s/versions", body(A)) == 50001


async def test_another_writer_between_decision_and_append_gets_no_id_twice() -> None:
    async with registry() as asking:
        await asking.register("first", A)
        topic, real, count = asking.registry.topic, asking.registry.topic.write, 0

        async def interrupted(records: Any) -> bool:
            nonlocal count
            count += 1
            if count == 1:
                key = b'{"keytype":"SCHEMA","subject":"theirs","version":1,"magic":1}'
                write(asking, (key, b'{"subject":"theirs","version":1,"id":2,"schema":"\\"int\\"","deleted":false}'))
            return await real(records)

        topic.write = interrupted
        assert (await asking.register("ours", B))["id"] == 3
        assert count == 2


async def test_a_request_whose_client_goes_away_is_done_all_the_same() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        asked = Asked("POST", "/subjects/s/versions", body(B))
        running = asyncio.ensure_future(asking.registry.answer(asked, Rights()))
        await asyncio.sleep(0)
        running.cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        assert await asking.ask("GET", "/subjects/s/versions") == [1, 2]


async def test_a_restored_snapshot_has_the_schemas_of_its_moment() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        await call(asking.rig, "POST", "/snapshots", path="/s")
        await asking.register("s", B)
        await asking.register("later", B)
        await call(asking.rig, "POST", "/snapshots/restore", path="/s")
        assert await asking.ask("GET", "/subjects") == ["s"]
        assert await asking.ask("GET", "/subjects/s/versions") == [1]
        assert (await asking.register("s", record("a:int", "c:int=1")))["id"] == 2


async def test_a_topic_that_is_deleted_is_made_again_without_schemas() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        await asking.rig.delete("_schemas")
        assert await asking.ask("GET", "/subjects") == []
        assert (await asking.register("s", B))["version"] == 1


def test_records_are_written_in_the_order_of_their_fields() -> None:
    assert Written({"b": 1, "a": None}, None).content == (b'{"b":1,"a":null}', None)
