"""The client of a schema registry: a no is told from a registry that is away, logins, and several URLs."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.schemas import lookup
from odradek.schemas.client import RegistryAway, RegistryClient, RegistryRefused
from odradek.schemas.rest import subject_path
from tests.doubles.registry_server import Stub, stub_registry


@pytest.fixture
def stub() -> Iterator[Stub]:
    with stub_registry() as server:
        yield server


@pytest.fixture
def nobody() -> str:
    """The URL of a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


def test_it_is_asked_for_a_schema_with_its_references(stub: Stub) -> None:
    refers = [{"name": "t.B", "subject": "s/b", "version": 2}]
    stub.answers = {
        "/schemas/ids/7": (200, {"schema": '"A"', "references": refers}),
        "/subjects/s%2Fb/versions/2?deleted=true": (200, {"schema": '"b"', "schemaType": "AVRO"}),
    }
    client = RegistryClient(stub.url)
    assert lookup.run(lookup.by_name(7), client.ask) == lookup.Source("AVRO", '"A"', {"t.B": '"b"'})
    assert lookup.run(lookup.by_name(8), client.ask) is None
    client.close()


def test_what_a_schema_of_a_context_refers_to_is_in_that_context(stub: Stub) -> None:
    def refers(subject: str) -> list[dict[str, object]]:
        return [{"name": subject, "subject": subject, "version": 1}]

    stub.answers = {
        "/schemas/ids/7?subject=%3A.c%3As": (200, {"schema": '"A"', "references": refers("b")}),
        "/subjects/%3A.c%3Ab/versions/1?deleted=true": (200, {"schema": '"b"', "references": refers(":.d:e")}),
        "/subjects/%3A.d%3Ae/versions/1?deleted=true": (200, {"schema": '"e"', "references": refers("f")}),
        "/subjects/%3A.d%3Af/versions/1?deleted=true": (200, {"schema": '"f"'}),
    }
    found = lookup.run(lookup.by_name(7, ":.c:s"), RegistryClient(stub.url).ask)
    assert found == lookup.Source("AVRO", '"A"', {"f": '"f"', ":.d:e": '"e"', "b": '"b"'})


def test_what_is_sent_has_its_query_and_its_body(stub: Stub) -> None:
    path = subject_path("a b/c", "versions")
    stub.answers = {f"{path}?normalize=true": (200, {"id": 3})}
    client = RegistryClient(f"{stub.url}/")
    assert client.send("POST", path, {"schema": "{}"}, normalize=True, force=None) == {"id": 3}
    assert stub.asked == [("/subjects/a%20b%2Fc/versions?normalize=true", None, {"schema": "{}"})]


def test_a_path_before_that_of_the_registry_stays(stub: Stub) -> None:
    stub.answers = {"/apis/ccompat/v7/subjects": (200, ["s"])}
    assert RegistryClient(f"{stub.url}/apis/ccompat/v7/").ask("/subjects") == ["s"]


def test_a_no_has_the_registrys_words_and_code(stub: Stub) -> None:
    stub.answers = {"/x": (409, {"error_code": 40901, "message": "incompatible"}), "/y": (403, b"<html>")}
    client = RegistryClient(stub.url)
    with pytest.raises(RegistryRefused, match=r"^incompatible$") as refused:
        client.send("POST", "/x", {})
    assert (refused.value.status, refused.value.code) == (409, 40901)
    with pytest.raises(RegistryRefused, match="HTTP 403 Forbidden"):
        client.ask("/y")


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_registry_that_cannot_answer_now_is_away(stub: Stub, status: int) -> None:
    stub.answers = {"/x": (status, {"error_code": 50004, "message": "no leader"})}
    with pytest.raises(RegistryAway, match="no leader"):
        RegistryClient(stub.url).ask("/x")


def test_the_next_url_is_asked_where_one_does_not_answer(stub: Stub, nobody: str) -> None:
    stub.answers = {"/x": (200, 1)}
    assert RegistryClient(f"{nobody}, {stub.url}").ask("/x") == 1
    with pytest.raises(RegistryAway, match="Connection refused"):
        RegistryClient(nobody).ask("/x")


def test_what_is_no_registry_is_said_to_be_none(stub: Stub) -> None:
    client = RegistryClient(stub.url)
    for answer in ((200, b"<html>"), (404, b"<html>"), (404, {"detail": "Not Found"})):
        stub.answers = {"/x": answer}
        with pytest.raises(RegistryAway, match=f"is no schema registry: HTTP {answer[0]}"):
            client.ask("/x")
    stub.answers = {"/x": (302, b""), "/y": (404, {"error_code": 404, "message": "HTTP 404 Not Found"})}
    with pytest.raises(RegistryRefused, match="leads elsewhere"):
        client.ask("/x")
    with pytest.raises(RegistryRefused, match="404 Not Found"):
        client.ask("/y")


def test_threads_share_a_client(stub: Stub) -> None:
    stub.answers = {"/x": (200, 1)}
    client = RegistryClient(stub.url)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(client.ask, ["/x"] * 100)) == [1] * 100
    client.close()


def test_a_port_without_http_and_one_without_tls_are_named(stub: Stub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryAway, match="timed out"):
            RegistryClient(url, timeout_s=0.1).ask("/x")
    with pytest.raises(RegistryAway, match="no TLS is spoken there"):
        RegistryClient(stub.url.replace("http:", "https:")).ask("/x")


def test_users_are_in_the_settings_or_the_url_and_never_in_the_name(stub: Stub) -> None:
    clients = (
        RegistryClient(stub.url, {"basic.auth.user.info": "a:b"}),
        RegistryClient(stub.url.replace("//", "//a:b@")),
        RegistryClient(stub.url, {"bearer.auth.token": "t"}),
    )
    for client in clients:
        assert client.ask("/x") is None
        assert client.name == stub.url
    assert [who for _, who, _ in stub.asked] == ["Basic YTpi", "Basic YTpi", "Bearer t"]


@pytest.mark.parametrize(
    ("url", "settings", "text"),
    [
        ("ftp://x", {}, "expected http"),
        ("x:1", {}, "expected http"),
        ("http://x:y", {}, "expected http"),
        (" , ", {}, "is empty"),
        ("https://x", {"ssl.ca.location": "/none"}, "cannot be used"),
        ("http://x", {"ssl.truststore.location": "x"}, "is no setting of a schema registry"),
        ("http://x", {"basic.auth.user.info": "secret"}, "expected USER:PASSWORD"),
    ],
)
def test_settings_that_make_no_sense_are_refused(url: str, settings: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refused:
        RegistryClient(url, settings)
    assert "secret" not in str(refused.value)


def test_an_answer_is_read_whole_over_one_connection(stub: Stub) -> None:
    stub.answers = {"/x": (200, json.loads(json.dumps(["long"] * 50_000)))}
    client = RegistryClient(stub.url)
    assert len(client.ask("/x")) == 50_000 == len(client.ask("/x"))
