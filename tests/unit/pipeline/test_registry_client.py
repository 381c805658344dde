"""The registry's client: what is a no, and what is a registry that is away."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import click
import pytest

from odradek_pipeline.registry import RegisteredSchema, Registry, RegistryAway, RegistryRefused
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
        "/schemas/guids/g/ids": (200, [{"context": ".", "id": 5}, {"context": ".x", "id": 9}]),
    }
    assert Registry(stub.url).by_guid("g") == RegisteredSchema("JSON", "{}", 5)


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_registry_that_cannot_answer_now_is_away(stub: Stub, status: int) -> None:
    stub.answers = {"/schemas/ids/7?subject=s": (status, {"message": "later"})}
    with pytest.raises(RegistryAway, match="later"):
        Registry(stub.url).by_id(7, "s")
    stub.answers = {"/schemas/ids/7?subject=s": (200, b"no JSON")}
    with pytest.raises(RegistryAway):
        Registry(stub.url).by_id(7, "s")


def test_the_next_url_is_asked_when_one_is_away(stub: Stub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
    stub.answers = {"/schemas/ids/7?subject=s": (200, {"schema": '"int"'})}
    assert Registry(f"{gone},{stub.url}/").by_id(7, "s") == RegisteredSchema("AVRO", '"int"', 7)
    with pytest.raises(RegistryAway, match="refused"):
        Registry(gone).by_id(7, "s")


def test_a_refusal_is_no_absence(stub: Stub) -> None:
    for status in (401, 403):
        stub.answers = {"/schemas/ids/7?subject=s": (status, {"message": "who are you?"})}
        with pytest.raises(RegistryRefused, match=r"who are you\?"):
            Registry(stub.url).by_id(7, "s")


def test_schemas_are_registered_once(stub: Stub) -> None:
    stub.answers = {"/subjects/s/versions": (200, {"id": 3})}
    assert Registry(stub.url).register("s", RegisteredSchema("JSON", "{}")) == 3
    assert stub.asked == [("/subjects/s/versions", None, {"schema": "{}", "schemaType": "JSON"})]
    stub.answers = {"/subjects/s/versions": (409, {"message": "incompatible"})}
    with pytest.raises(RegistryRefused, match="incompatible"):
        Registry(stub.url).register("s", RegisteredSchema("JSON", "{}"))


def test_users_are_in_the_settings_or_the_url(stub: Stub) -> None:
    for registry in (
        Registry(stub.url, {"basic.auth.user.info": "a:b"}),
        Registry(stub.url.replace("//", "//a:b@")),
        Registry(stub.url, {"bearer.auth.token": "t"}),
    ):
        registry.latest("s")
    assert [who for _, who, _ in stub.asked] == ["Basic YTpi", "Basic YTpi", "Bearer t"]


@pytest.mark.parametrize(("url", "settings"), [("ftp://x", {}), ("x:1", {}), ("https://x", {"ssl.ca.location": "/no"})])
def test_settings_that_make_no_sense_are_refused(url: str, settings: dict[str, str]) -> None:
    with pytest.raises(click.UsageError):
        Registry(url, settings)
