"""The schema registry in a test's hands: records by their schemas, marks and resets, snapshots, and faults."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from broker.faults.registry_calls import Call, RegistryFaults, call_of
from broker.faults.spec import FaultError
from broker.registry.faults import struck
from broker.registry.host import RegistryHost
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.faults import faults_of
from broker.testkit.control.schemas import BEFORE_OTHERS, schemas_of
from broker.testkit.explain.situations import Concerned, read_kit
from odradek.schemas.framing import with_prefix
from protocol.records.build import Record
from storage.workers import Workers
from tests.doubles.workers import LoopWorkers
from tests.unit.broker.registry.rig import record
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control
from tests.unit.broker.testkit.control.test_snapshots import call

A = json.dumps(record("id:int"))
GROWN = json.dumps(record("id:int", 'by:string=""'))


@asynccontextmanager
async def broker(workers: Workers | None = None) -> AsyncIterator[Rig]:
    """A node as the test kit starts it."""
    async with Rig(workers=workers) as rig:
        rig.node.registry = RegistryHost(rig.node)
        rig.node.faults = faults_of(rig.node)
        await rig.create("orders")
        yield rig


async def register(rig: Rig, subject: str, schema: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = await control(rig, "POST", f"/registry/subjects/{subject}", schema=schema, **more)
    return found


async def produce(rig: Rig, *records: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await control(rig, "POST", "/topics/orders/records", records=list(records))
    found: list[dict[str, Any]] = answer["records"]
    return found


async def read(rig: Rig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await control(rig, "GET", "/topics/orders/records"))["records"]
    return found


# -- records


async def test_records_are_encoded_by_a_schema_and_come_back_decoded() -> None:
    async with broker() as rig:
        first = await register(rig, "orders-value", A)
        assert first == {"id": 1, "subject": "orders-value", "version": 1}
        await register(rig, "orders-value", GROWN)
        await register(rig, "orders-key", '"string"')
        written = await produce(
            rig,
            {"json": {"id": 7, "by": "anna"}},
            {"json": {"id": 8}, "schema": {"id": 1}, "key_json": "k", "key_schema": {}},
            {"json": {"id": 9}, "schema": {"subject": "orders-value", "version": 1}},
            {"value": "plain"},
        )
        found = await read(rig)
        assert written == found
        assert [one.get("json") for one in found] == [{"id": 7, "by": "anna"}, {"id": 8}, {"id": 9}, None]
        assert [one.get("schema") for one in found[1:]] == [{"id": 1, "type": "AVRO"}] * 2 + [None]
        assert (found[1]["key_json"], found[1]["key_schema"]["id"]) == ("k", 3)
        assert base64.b64decode(found[0].get("value_base64", "")) or found[0]["value"] == "\0\0\0\0\2\16\10anna"


async def test_a_wait_compares_decoded_keys_and_values_and_says_what_differs() -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        await register(rig, "orders-key", A)
        await produce(rig, {"json": {"id": 7}, "key_json": {"id": 3}})
        found = await control(
            rig, "POST", "/topics/orders/wait", json={"id": 7}, key_json={"id": 3}, count=1, timeout=0
        )
        assert found["records"][0]["json"] == {"id": 7}
        with pytest.raises(ControlError, match=r"value\.id: expected 8, is 7"):
            await control(rig, "POST", "/topics/orders/wait", json={"id": 8}, count=1, timeout=0)
        with pytest.raises(ControlError, match=r'key \{"id": 3\} \(schema 1\), value \{"id": 7\} \(schema 1\)'):
            await control(rig, "POST", "/topics/orders/wait", count=2, timeout=0)


async def test_bytes_that_name_an_unknown_schema_are_shown_with_the_reason() -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        await produce(rig, {"value_base64": "AAAAAGMC"}, {"value_base64": "AAAAAAE="})
        unknown, cut = await read(rig)
        assert unknown["schema"] == {"id": 99, "type": None, "problem": "the registry has no schema 99"}
        assert (cut["schema"]["id"], "json" in cut) == (1, False)
        assert cut["schema"]["problem"]
        with pytest.raises(ControlError, match=r"is .* \(schema 1: the bytes are not"):
            await control(rig, "POST", "/topics/orders/wait", json={"id": 7}, count=1, timeout=0)


async def test_names_that_are_no_schemas_are_not_kept_and_others_are_served_while_they_are_asked_for() -> None:
    def records(first: int) -> list[Record]:
        return [Record(at, 0, None, with_prefix(first + at, b"x"), ()) for at in range(100)]

    async with broker() as rig:
        await register(rig, "orders-value", A)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        found = await schemas_of(rig.node, records(1))
        task.cancel()
        assert turns >= 100 // BEFORE_OTHERS
        assert len(found.codecs) == 100
        found = await schemas_of(rig.node, records(1000), found)
        assert found.codecs.keys() == {1, *range(1000, 1100)}


async def test_what_was_written_with_a_schema_is_decoded_by_a_worker() -> None:
    called: list[str] = []

    class Noting(LoopWorkers):
        async def call(self, work):  # type: ignore[no-untyped-def]
            called.append(getattr(getattr(work, "func", work), "__name__", ""))
            return await super().call(work)

    async with broker(Noting()) as rig:
        await produce(rig, {"value": "plain"})
        assert "_described" not in called
        await register(rig, "orders-value", A)
        await produce(rig, {"json": {"id": 7}})
        assert "_described" in called


async def test_nothing_is_asked_of_a_registry_that_nobody_has_used() -> None:
    async with broker() as rig:
        await produce(rig, {"value_base64": "AAAAAAEC"})
        (found,) = await read(rig)
        assert "schema" not in found
        assert rig.node.cluster.cache.topic("_schemas") is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"schema": {"id": 1}}, r"records\[0\]: schema is given without json"),
        ({"json": 1, "schema": 1}, r"records\[0\]: schema = 1: expected an object"),
        ({"json": 1, "schema": {"ID": 1}}, "expected an object with id"),
        ({"json": 1, "schema": {"id": "1"}}, "id = '1': expected int"),
        ({"json": 1, "schema": {"version": "1?deleted=true"}}, "expected a number or latest"),
        ({"json": 1, "schema": {"id": 9}}, "the registry has no schema 9"),
        ({"json": 1, "schema": {"subject": "s"}}, "the registry has no version latest of s: register one first"),
        ({"json": {"id": "x"}, "schema": {"id": 1}}, r"records\[0\]: value by schema 1:"),
        ({"json": {"id": 1}, "schema": {"id": 1, "message": "M"}}, "only Protobuf has messages"),
        ({"json": {"id": 1}, "value": "v"}, "both given"),
    ],
)
async def test_what_cannot_be_encoded_is_refused_and_nothing_is_written(given: dict[str, Any], why: str) -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        with pytest.raises(ControlError, match=why):
            await produce(rig, given, {"value": "other"})
        assert await read(rig) == []


# -- the registry's own requests


async def test_subjects_versions_levels_and_checks() -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        assert await control(rig, "GET", "/registry/subjects") == {"subjects": ["orders-value"]}
        assert await control(rig, "GET", "/registry/subjects/orders-value") == {
            "subject": "orders-value",
            "versions": [1],
            "compatibility": "BACKWARD",
        }
        other = json.dumps(record("n:int"))
        check = await control(rig, "POST", "/registry/subjects/orders-value/check", schema=other)
        assert (check["compatible"], bool(check["messages"])) == (False, True)
        with pytest.raises(ControlError, match=r"incompatible .* \(40901\)") as refused:
            await register(rig, "orders-value", other)
        assert refused.value.status == 409
        await control(rig, "POST", "/registry/compatibility", subject="orders-value", level="NONE")
        assert (await register(rig, "orders-value", other))["version"] == 2
        assert (await control(rig, "GET", "/registry/schemas/2"))["schema"] == json.dumps(
            record("n:int"), separators=(",", ":")
        )
        path = "/registry/subjects/orders-value"
        assert await control(rig, "DELETE", path, version="1", permanent=True) == {"versions": [1]}
        with pytest.raises(ControlError, match="40402"):
            await control(rig, "GET", f"{path}/versions/1")


async def test_a_permanent_delete_is_of_the_version_that_was_the_latest_and_of_what_is_deleted_softly() -> None:
    async with broker() as rig:
        for schema in (A, GROWN):
            await register(rig, "orders-value", schema)
        path = "/registry/subjects/orders-value"
        assert await control(rig, "DELETE", path, version="latest", permanent=True) == {"versions": [2]}
        assert await control(rig, "DELETE", path) == {"versions": [1]}
        assert await control(rig, "DELETE", path, permanent=True) == {"versions": [1]}
        with pytest.raises(ControlError, match="40401"):
            await control(rig, "DELETE", path, permanent=True)


async def test_a_node_without_a_registry_says_so() -> None:
    async with Rig() as rig:
        with pytest.raises(ControlError, match="has no schema registry") as refused:
            await control(rig, "POST", "/registry")
        assert refused.value.status == 409
        assert await control(rig, "GET", "/registry") == {"urls": []}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"host": "example.com"}, "host: expected an IP address, got 'example.com'"),
        ({"port": 65536}, "port: expected at most 65535, got 65536"),
    ],
)
async def test_a_registry_does_not_listen_at_what_is_no_address(given: dict[str, Any], why: str) -> None:
    async with broker() as rig:
        with pytest.raises(ControlError, match=why):
            await control(rig, "POST", "/registry", **given)
        assert await control(rig, "GET", "/registry") == {"urls": []}


# -- marks, resets, snapshots


async def test_a_reset_removes_the_schemas_that_came_after_the_mark_and_sets_levels_back() -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        await control(rig, "POST", "/registry/compatibility", subject="orders-value", level="FULL")
        mark = (await control(rig, "GET", "/mark"))["mark"]
        await register(rig, "orders-value", GROWN)
        await register(
            rig, "mails-value", json.dumps(record("by:R", name="M")), references=[_reference("R", "orders-value", 2)]
        )
        for subject in ("orders-value", None):
            given = {} if subject is None else {"subject": subject}
            await control(rig, "POST", "/registry/compatibility", level="NONE", **given)
        await control(rig, "POST", "/reset", mark=mark)
        assert await control(rig, "GET", "/registry/subjects") == {"subjects": ["orders-value"]}
        left = await control(rig, "GET", "/registry/subjects/orders-value")
        assert (left["versions"], left["compatibility"]) == ([1], "FULL")
        assert (await register(rig, "new-value", '"int"'))["id"] == 4  # ids are never given again
        assert (await control(rig, "GET", "/registry/subjects/new-value"))["compatibility"] == "BACKWARD"


async def test_a_reset_sets_all_back_that_levels_and_modes_have_also_of_what_has_no_schema() -> None:
    async with broker() as rig:
        assert rig.node.registry is not None
        ask = rig.node.registry.ask
        await register(rig, "orders-value", A)
        await ask("PUT", "/config/orders-value", {"compatibility": "FULL", "alias": "other"})
        await ask("PUT", "/mode/orders-value", {"mode": "READONLY"})
        before = await ask("GET", "/odradek/settings")
        mark = (await control(rig, "GET", "/mark"))["mark"]
        await ask("DELETE", "/mode/orders-value")
        await ask("PUT", "/config/orders-value", {"normalize": True, "alias": None})
        for path in ("/config/new-value", "/config/:.c:", "/config"):
            await ask("PUT", path, {"compatibility": "NONE"})
        await ask("PUT", "/mode/new-value", {"mode": "READONLY"})
        await control(rig, "POST", "/reset", mark=mark)
        assert await ask("GET", "/odradek/settings") == before


def _reference(name: str, subject: str, version: int) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


async def test_a_reset_to_before_the_first_schema_leaves_no_registry_behind() -> None:
    async with broker() as rig:
        mark = (await control(rig, "GET", "/mark"))["mark"]
        assert (mark["schemas"], mark["schema_settings"]) == ([], [])
        await register(rig, "orders-value", A)
        await produce(rig, {"json": {"id": 7}})
        mark["topics"] = []
        await control(rig, "POST", "/reset", mark=mark)
        assert rig.node.cluster.cache.topic("_schemas") is None
        await register(rig, "other-value", '"string"')  # has the id that the other one had
        await rig.create("orders")
        await produce(rig, {"json": "text", "schema": {"id": 1}})
        assert [one["json"] for one in await read(rig)] == ["text"]


async def test_a_snapshot_has_the_schemas_of_its_moment() -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        await call(rig, "POST", "/snapshots", path="/s")
        await register(rig, "later-value", '"int"')
        await call(rig, "POST", "/snapshots/restore", path="/s")
        assert await control(rig, "GET", "/registry/subjects") == {"subjects": ["orders-value"]}
        await register(rig, "third-value", '"string"')
        await produce(rig, {"json": {"id": 7}}, {"json": "text", "schema": {"id": 2}})
        assert [one["json"] for one in await read(rig)] == [{"id": 7}, "text"]


# -- faults


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("POST", "/subjects/s/versions", Call.REGISTER),
        ("POST", "/subjects/s", Call.LOOK_UP),
        ("GET", "/subjects/s/versions/1", Call.GET),
        ("GET", "/schemas/ids/1", Call.GET),
        ("GET", "/schemas/guids/g", Call.GET),
        ("GET", "/subjects", Call.LIST),
        ("GET", "/subjects/s/versions", Call.LIST),
        ("GET", "/schemas/types", Call.LIST),
        ("DELETE", "/subjects/s/versions/1", Call.DELETE),
        ("POST", "/compatibility/subjects/s/versions", Call.CHECK),
        ("PUT", "/config/s", Call.CONFIG),
        ("GET", "/mode", Call.MODE),
        ("POST", "/contexts/:.c:/subjects/s/versions", Call.REGISTER),
        ("GET", "/", Call.LIST),
    ],
)
def test_what_a_request_asks_for_follows_from_its_path(method: str, path: str, call: Call) -> None:
    assert call_of(method, path) is call


def test_a_registry_fault_selects_by_call_and_subject_skips_and_counts() -> None:
    faults = RegistryFaults(iter("abc").__next__)
    one = faults.set({"call": "register", "subject": "s", "error": 50001, "skip": 1, "count": 2})
    hits = [bool(faults.struck(call, subject)) for call in (Call.REGISTER, Call.GET) for subject in ("s", "other", "s")]
    assert hits == [False, False, True, False, False, False]
    assert faults.struck(Call.REGISTER, "s") == [one]
    assert (one.hits, one.active, faults.struck(Call.REGISTER, "s")) == (2, False, [])
    faults.remove(one)
    assert list(faults) == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/subjects/orders-value/versions/1", 503),
        ("/schemas/ids/1?subject=orders-value", 503),
        ("/schemas/ids/1?subject=other", 200),
        ("/schemas/ids/1", 200),
    ],
)
async def test_a_registry_fault_of_a_subject_strikes_also_an_id_asked_for_with_it(path: str, status: int) -> None:
    async def ordinary(_request: web.Request) -> web.Response:
        return web.Response()

    async with broker() as rig:
        await control(rig, "POST", "/registry/faults", call="get", subject="orders-value", error=503)
        assert rig.node.faults is not None
        assert (await struck(make_mocked_request("GET", path), rig.node.faults, ordinary)).status == status


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "the fault does nothing"),
        ({"error": 7}, "error = 7: expected a status from 400 to 599, or a code"),
        ({"error": 503, "drop": "reply"}, "only one of error and drop"),
    ],
)
def test_a_registry_fault_that_makes_no_sense_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(FaultError, match=why):
        RegistryFaults(lambda: "a").set(given)


async def test_a_registry_fault_is_listed_explained_removed_and_spares_the_kit() -> None:
    async with broker() as rig:
        given = {"call": "register", "error": 50001, "delay": 0.5}
        fault = await control(rig, "POST", "/registry/faults", **given)
        assert fault["what"] == "kind=registry, call=register, error=50001, delay=0.5"
        assert await control(rig, "GET", "/faults") == {"faults": [fault]}
        assert await register(rig, "orders-value", A)
        (sentence,) = read_kit(rig.node, Concerned()).faults
        assert sentence.startswith("the schema registry's clients: call=register, error=50001, delay=0.5")
        await control(rig, "DELETE", f"/faults/{fault['id']}")
        assert (await control(rig, "GET", f"/faults/{fault['id']}"))["active"] is False
        assert (await control(rig, "GET", "/faults"))["faults"] == []


async def test_a_topic_of_records_is_read_while_the_registry_cannot_answer() -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        await produce(rig, {"json": {"id": 7}})
        await rig.configure("_schemas", **{"cleanup.policy": "delete"})
        rig.node.registry = RegistryHost(rig.node)
        await produce(rig, {"value_base64": base64.b64encode(b"\0\0\0\0\5x").decode()})
        known, unknown = await read(rig)
        assert known["json"] == {"id": 7}
        assert "set it to compact" in unknown["schema"]["problem"]


async def test_a_key_and_a_value_by_a_header_are_decoded_by_their_guid() -> None:
    async with broker() as rig:
        await register(rig, "orders-value", A)
        guid = (await control(rig, "GET", "/registry/subjects/orders-value/versions/1"))["guid"]
        header = b"\1" + bytes.fromhex(guid.replace("-", ""))
        given = {
            "value_base64": "Ag==",
            "headers": {"__value_schema_id": {"value_base64": base64.b64encode(header).decode()}},
        }
        await produce(rig, given)
        (found,) = await read(rig)
        assert (found["schema"], found["json"]) == ({"guid": guid, "type": "AVRO"}, {"id": 1})
