"""The registry's client: what is a no, and what is a registry that is away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest

from odradek_pipeline.registry import RegisteredSchema, Registry
from odradek_pipeline.schemas.client import RegistryAway
from odradek_pipeline.schemas.errors import SchemaError
from tests.doubles.registry_server import Stub, stub_registry


@pytest.fixture
def stub() -> Iterator[Stub]:
    with stub_registry() as server:
        yield server


def test_a_schema_comes_with_what_it_refers_to(stub: Stub) -> None:
    def reference(name: str) -> dict[str, object]:
        return {"name": name, "subject": f"s/{name}", "version": 2}

    stub.answers = {
        "/schemas/ids/7?subject=t-value": (200, {"schema": '"A"', "references": [reference("B")]}),
        "/subjects/s%2FB/versions/2?deleted=true": (200, {"schema": '"b"', "references": [reference("C")]}),
        "/subjects/s%2FC/versions/2?deleted=true": (200, {"schema": '"c"'}),
    }
    found = Registry(stub.url).by_id(7, "t-value")
    assert found == RegisteredSchema("AVRO", '"A"', 7, {"C": '"c"', "B": '"b"'})
    assert found is not None and list(found.needed) == ["C", "B"], "each is after what it needs"
    assert Registry(stub.url).by_id(8, "t-value") is None
    assert Registry(stub.url).latest("no") is None


def test_a_guid_is_asked_for_with_its_ids(stub: Stub) -> None:
    stub.answers = {
        "/schemas/guids/g": (200, {"schema": "{}", "schemaType": "JSON"}),
        "/schemas/guids/g/ids": (200, [{"context": ".", "id": 5}, {"context": ".x", "id": 2}]),
    }
    assert Registry(stub.url).by_guid("g") == RegisteredSchema("JSON", "{}", 5)


def test_a_registry_that_does_not_answer_is_told_from_one_that_refuses(stub: Stub) -> None:
    registry = Registry(stub.url)
    stub.answers = {"/schemas/ids/7?subject=s": (500, {"message": "later"})}
    with pytest.raises(RegistryAway, match="later"):
        registry.by_id(7, "s")
    for status in (401, 403):
        stub.answers = {"/schemas/ids/7?subject=s": (status, {"message": "who are you?"})}
        with pytest.raises(SchemaError, match=rf"the registry at {stub.url} refuses: who are you\?") as refused:
            registry.by_id(7, "s")
        assert not isinstance(refused.value, RegistryAway)


def test_what_a_proxy_says_of_a_registry_that_is_gone_is_no_unknown_schema(stub: Stub) -> None:
    answers: list[tuple[int, Any]] = [(404, b"<html>no such backend"), (404, {}), (200, b"<html>come back later")]
    for answer in answers:
        stub.answers = {"/schemas/ids/7?subject=s": answer}
        with pytest.raises(RegistryAway, match="is no schema registry"):
            Registry(stub.url).by_id(7, "s")
    stub.answers = {"/schemas/guids/g": (404, {"error_code": 404, "message": "HTTP 404 Not Found"})}
    with pytest.raises(SchemaError, match="HTTP 404"):
        Registry(stub.url).by_guid("g")


def test_schemas_are_registered_once(stub: Stub) -> None:
    stub.answers = {"/subjects/s/versions": (200, {"id": 3})}
    assert Registry(stub.url).register("s", RegisteredSchema("JSON", "{}")) == 3
    assert stub.asked == [("/subjects/s/versions", None, {"schema": "{}", "schemaType": "JSON"})]
    stub.answers = {"/subjects/s/versions": (409, {"message": "incompatible"})}
    with pytest.raises(SchemaError, match="incompatible"):
        Registry(stub.url).register("s", RegisteredSchema("JSON", "{}"))


@pytest.mark.parametrize(("url", "settings"), [("ftp://x", {}), ("http://x", {"user": "me"})])
def test_settings_that_make_no_sense_are_refused(url: str, settings: dict[str, str]) -> None:
    with pytest.raises(click.UsageError, match="--registry"):
        Registry(url, settings)
