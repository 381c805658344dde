"""Who may do what: users and ACLs are those of the broker, over HTTP and HTTPS."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp.test_utils import TestServer

from broker.network.request import USER, Principal
from broker.network.server import ListenError
from broker.registry.app import make_app
from broker.registry.registry import Registry
from broker.registry.server import RegistryServer, addresses
from broker.registry.users import REFUSAL_MS, rights_of
from tests.unit.broker.console.test_login import SASL
from tests.unit.broker.registry.rig import Asking, body, record
from tests.unit.broker.rig import Rig

A = record("a:int")
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:otto",
    "odradek.create.acls": "User:anna WRITE TOPIC orders;User:anna READ TOPIC mails;User:anna DELETE TOPIC gone;"
    "User:anna ALTER_CONFIGS TOPIC orders",
}
MAY: list[tuple[str, str, Any, bool]] = [
    ("GET", "/subjects", None, True),
    ("GET", "/config", None, True),
    ("GET", "/subjects/orders-value/versions", None, True),
    ("POST", "/subjects/orders-key/versions", body(A), True),
    ("POST", "/subjects/orders/versions", body(A), True),
    ("POST", "/subjects/:.c:orders-value/versions", body(A), True),
    ("PUT", "/config/orders-value", {"compatibility": "FULL"}, True),
    ("PUT", "/mode/orders-value", {"mode": "READONLY"}, True),
    ("DELETE", "/subjects/orders-value", None, False),
    ("GET", "/subjects/mails-value/versions/1", None, True),
    ("POST", "/subjects/mails-value", body(A), True),
    ("POST", "/compatibility/subjects/mails-value/versions", body(A), True),
    ("POST", "/subjects/mails-value/versions", body(A), False),
    ("PUT", "/config/mails-value", {"compatibility": "FULL"}, False),
    ("DELETE", "/subjects/gone-value", None, True),
    ("POST", "/subjects/gone-value/versions", body(A), False),
    ("GET", "/subjects/secret-value/versions", None, False),
    ("GET", "/subjects/secret-value/versions/1/schema", None, False),
    ("POST", "/subjects/secret-value", body(A), False),
    ("POST", "/compatibility/subjects/secret-value/versions", body(A), False),
    ("GET", "/config/secret-value", None, False),
    ("PUT", "/config", {"compatibility": "NONE"}, False),
    ("DELETE", "/config", None, False),
    ("PUT", "/mode", {"mode": "READONLY"}, False),
    ("PUT", "/config/:.c:", {"compatibility": "NONE"}, False),
    ("GET", "/schemas/ids/1", None, True),
    ("GET", "/schemas/ids/2", None, False),
]


@asynccontextmanager
async def guarded() -> AsyncIterator[Asking]:
    async with Rig(config=ACLS) as rig:
        asking = Asking(rig)
        for topic in ("orders", "mails", "gone"):
            await asking.register(f"{topic}-value", A)
        await asking.register("secret-value", record("secret:int"))
        yield asking


@pytest.mark.parametrize(("method", "path", "given", "allowed"), MAY, ids=lambda one: str(one)[:50])
async def test_rights_on_a_topic_are_rights_on_its_subjects(method: str, path: str, given: Any, allowed: bool) -> None:
    async with guarded() as asking:
        rights = rights_of(asking.rig.node, Principal(USER, "anna"), "10.0.0.1")
        answer = await asking.answer(method, path, given, rights)
        assert (answer.status != 403) == allowed, answer.value
        if not allowed:
            assert answer.value["error_code"] == 40301
        all_rights = rights_of(asking.rig.node, Principal(USER, "otto"), "10.0.0.1")
        assert (await asking.answer(method, path, given, all_rights)).status in (200, 404)


async def test_lists_have_what_the_user_may_see_alone() -> None:
    async with guarded() as asking:
        rights = rights_of(asking.rig.node, Principal(USER, "anna"), "10.0.0.1")
        for path in ("/subjects", "/schemas", "/schemas/ids/1/versions"):
            answer = await asking.answer("GET", path, None, rights)
            names = [each if isinstance(each, str) else each["subject"] for each in answer.value]
            assert sorted(names) == ["gone-value", "mails-value", "orders-value"]


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@asynccontextmanager
async def session_of(rig: Rig) -> AsyncIterator[aiohttp.ClientSession]:
    app = make_app(rig.node, Registry(rig.node), ())
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        yield session


@asynccontextmanager
async def with_users(**more: str) -> AsyncIterator[tuple[Rig, aiohttp.ClientSession]]:
    async with Rig(config=SASL | more) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with session_of(rig) as session:
            yield rig, session


async def status(session: aiohttp.ClientSession, headers: dict[str, str], path: str = "/subjects") -> int:
    async with session.get(path, headers=headers) as answer:
        if answer.status == 401:
            assert answer.headers["WWW-Authenticate"].startswith("Basic")
        return answer.status


async def test_names_and_passwords_are_those_of_the_listeners_with_sasl() -> None:
    async with with_users() as (rig, session):
        assert await status(session, basic("anna", "a=,secret")) == 200
        assert await status(session, {}) == 401
        for wrong in ({"Authorization": "Bearer x"}, {"Authorization": "Basic !"}, {"Authorization": "Basic YQ=="}):
            assert await status(session, wrong) == 401
        asked = asyncio.ensure_future(status(session, basic("anna", "wrong")))
        while not asked.done():
            await asyncio.sleep(0.01)  # the request goes through real sockets
            await rig.clock.run(REFUSAL_MS)
        assert await asked == 401


async def test_a_password_is_compared_once_a_while() -> None:
    async with with_users() as (rig, session):
        for _ in range(5):
            assert await status(session, basic("otto", "o")) == 200
        attempts = rig.node.local.security.attempts
        assert sum(attempts.values()) == 1


async def test_nobody_has_to_say_who_he_is_where_clients_do_not() -> None:
    async with Rig() as rig, session_of(rig) as session:
        assert await status(session, {}) == 200
        assert await status(session, {"Host": "evil.example.org"}) == 421
        assert await status(session, {"Host": "broker.example"}) == 200


async def test_bodies_and_answers_have_the_media_types_of_confluents() -> None:
    async with Rig() as rig, session_of(rig) as session:
        path, confluent = "/subjects/a%2Fb-value/versions", "application/vnd.schemaregistry.v1+json"
        for kind in (confluent, "application/json", "application/json; charset=utf-8", "application/octet-stream"):
            async with session.post(path, data='{"schema": "\\"int\\""}', headers={"Content-Type": kind}) as answer:
                assert (answer.status, answer.headers["Content-Type"]) == (200, confluent)
        for kind, data, expected in (
            ("text/plain", "{}", 415),
            (confluent, "{", 400),
            (confluent, '{"schema": "\\ud800"}', 400),
            (confluent, "x" * (3 << 20), 413),
        ):
            async with session.post(path, data=data, headers={"Content-Type": kind}) as answer:
                assert answer.status == expected
                assert (await answer.json(content_type=None))["error_code"] == expected
        async with session.get("/subjects", headers={"Accept": "application/json"}) as answer:
            assert answer.headers["Content-Type"] == "application/json"
            assert await answer.json() == ["a/b-value"]
        async with session.get("/schemas/ids/1/schema") as answer:
            assert await answer.text() == '"int"'


async def test_https_has_the_keys_of_its_listener(tmp_path: Path) -> None:
    authority = trustme.CA()
    keys = tmp_path / "keys.pem"
    keys.write_bytes(authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    settings = {
        "schema.registry.listeners": "https://127.0.0.1:0,http://127.0.0.1:0",
        "listener.name.registry.ssl.keystore.type": "PEM",
        "listener.name.registry.ssl.keystore.location": str(keys),
    }
    async with Rig(config=settings) as rig:
        server = RegistryServer(addresses(rig.node.local.config))
        await server.begin(rig.node, Registry(rig.node))
        secure, plain = server.urls
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        async with aiohttp.ClientSession() as session:
            for url in (plain, secure):
                async with session.get(f"{url}/subjects", ssl=trusting) as answer:
                    assert await answer.json(content_type=None) == []
        await server.stop()


@pytest.mark.parametrize("wrong", ["127.0.0.1:8081", "ftp://127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:99999"])
async def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    async with Rig(config={"schema.registry.listeners": wrong}) as rig:
        with pytest.raises(ListenError, match=r"expected http://HOST:PORT"):
            RegistryServer(addresses(rig.node.local.config))
