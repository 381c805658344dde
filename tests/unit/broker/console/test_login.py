"""Where clients have to authenticate, the console's users do so too, and see what their ACLs allow."""

from __future__ import annotations

import asyncio
import ssl
from random import Random

import pytest
from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialDeletion, ScramCredentialUpsertion

from broker.config.listeners import Listener
from broker.console.login import REFUSAL_MS
from broker.passwords import SESSION_MS
from broker.security.node_security import ListenerSecurity, Prepared
from controller.scram import ScramMechanism, upsertion
from tests.unit.broker.console.browsing import Browser, browsing
from tests.unit.broker.rig import Rig

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="a=,secret" user_otto="o";'
SASL = {
    "listeners": "SASL_PLAINTEXT://:9093",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": JAAS,
}
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:otto",
    "odradek.create.acls": "User:anna DESCRIBE TOPIC orders-*;User:anna READ TOPIC orders-read;User:anna READ GROUP *",
    "odradek.console.write": "true",
}


async def add_user(rig: Rig, user: str, password: str) -> None:
    new = upsertion(user, ScramMechanism.SCRAM_SHA_256, password, Random(1))
    wanted = ScramCredentialUpsertion(
        name=user, mechanism=1, iterations=new.iterations, salt=new.salt, salted_password=new.salted_password
    )
    done = await rig.connect().ask("alter_user_scram_credentials", 0, deletions=(), upsertions=(wanted,))
    assert [one.error_code.name for one in done.results] == ["none"]


async def log_in(browser: Browser, user: str, password: str) -> None:
    assert await browser.post("/login", user=user, password=password) == "./"


async def refused(rig: Rig, browser: Browser, user: str, password: str) -> str:
    """The page that refuses them, which takes a while."""
    asked = asyncio.ensure_future(browser.post("/login", 401, user=user, password=password))
    while not asked.done():
        await asyncio.sleep(0.01)  # the request goes through real sockets
        await rig.clock.run(REFUSAL_MS)
    return await asked


async def test_nobody_has_to_log_in_where_clients_do_not() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        await browser.get("/")


async def test_every_page_asks_for_a_login_where_clients_authenticate() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            for page in ("", "topics", "messages?topic=t", "tail?topic=t", "journal"):
                async with browser.session.get(f"/{page}", allow_redirects=False) as answer:
                    assert (answer.status, answer.headers["Location"]) == (303, "login")
            assert await browser.post("/delete-topic", topic="t") == "login"
            assert "names and passwords are those of Kafka's clients" in (await browser.get("/login")).text
            assert "Wrong name or password" in await refused(rig, browser, "anna", "wrong")
            assert "Wrong name or password" in await refused(rig, browser, "nobody", "a=,secret")
            await browser.get("/", 303)
            await log_in(browser, "anna", "a=,secret")
            assert "User:anna" in (await browser.get("/topics")).text
            assert await browser.post("/logout") == "login"
            await browser.get("/topics", 303)


async def test_a_session_ends() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a=,secret")
            rig.clock.advance(SESSION_MS + 1)
            await browser.get("/topics", 303)


async def test_users_of_scram_log_in_with_their_passwords() -> None:
    mechanisms = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    async with Rig(config={"listeners": "SASL_PLAINTEXT://:9093", **mechanisms}) as rig:
        await add_user(rig, "anna", "a=,secret")
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            assert "Wrong name or password" in await refused(rig, browser, "anna", "wrong")
            assert "Wrong name or password" in await refused(rig, browser, "nobody", "a=,secret")
            await log_in(browser, "anna", "a=,secret")
            await browser.get("/topics")


async def test_a_session_ends_with_the_password_of_its_user() -> None:
    mechanisms = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    async with Rig(config={"listeners": "SASL_PLAINTEXT://:9093", **mechanisms}) as rig:
        await add_user(rig, "anna", "a=,secret")
        await add_user(rig, "otto", "o")
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a=,secret")
            await add_user(rig, "otto", "new")
            await browser.get("/topics")
            await add_user(rig, "anna", "new")
            await browser.get("/topics", 303)
            await log_in(browser, "anna", "new")
            deletion = ScramCredentialDeletion(name="anna", mechanism=1)
            await rig.connect().ask("alter_user_scram_credentials", 0, deletions=(deletion,), upsertions=())
            await browser.get("/topics", 303)


async def test_a_session_ends_when_the_listeners_users_are_others() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a=,secret")
            await rig.secure("SASL", "SASL_PLAINTEXT")
            await browser.get("/topics", 303)


async def test_users_see_and_change_what_their_acls_allow() -> None:
    async with Rig(config=SASL | ACLS) as rig:
        for topic in ("orders-read", "orders-listed", "secret"):
            await rig.create(topic)
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a=,secret")
            listed = await browser.get("/topics")
            assert "1–2 of 2 topics" in listed.text
            assert "secret" not in listed.text
            await browser.get("/messages?topic=orders-read")
            for page in ("messages?topic=orders-listed", "tail?topic=orders-listed", "topic?name=secret"):
                assert "User:anna may not" in (await browser.get(f"/{page}", 403)).text
            for page in ("clients", "cluster", "kit", "journal"):
                assert "User:anna may not" in (await browser.get(f"/{page}", 403)).text
            assert "Only users who may alter the cluster" in (await browser.get("/topic?name=orders-read")).text
            missing = await browser.get("/topic?name=orders-reab", 404)
            assert "there is no topic" in missing.text
            assert "did you mean" not in missing.text
            assert "may not DELETE the topic secret" in await browser.post("/delete-topic", 403, topic="secret")
            assert "may not READ the topic secret" in await browser.post(
                "/reset-offsets", 403, group="mail", to="earliest", topic="secret"
            )
            assert "may not CREATE" in await browser.post("/create-topic", 403, topic="more")
            await browser.post("/logout")
            await log_in(browser, "otto", "o")
            assert "1–3 of 3 topics" in (await browser.get("/topics")).text
            await browser.get("/journal")
            assert await browser.post("/delete-topic", topic="secret") == "topics?done=Deleted."


async def test_nobody_logs_in_where_an_authorizer_stands_without_passwords() -> None:
    async with Rig(config=ACLS) as rig, browsing(rig) as browser:
        await browser.get("/topics", 303)
        assert "Nobody can log in" in (await browser.get("/login")).text


@pytest.mark.parametrize("mode", [ssl.CERT_NONE, ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED])
async def test_where_clients_need_certificates_the_console_is_closed(mode: ssl.VerifyMode) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = mode
    async with Rig() as rig, browsing(rig) as browser:
        listener = Listener("SSL", "SSL", "broker.example", 9093)
        prepared = Prepared(context, None, (), None, {})
        security = ListenerSecurity(listener, prepared, rig.clock, rig.node.base.request_wheel)
        rig.node.local.security.listeners["SSL"] = security
        await browser.get("/topics", 303 if mode is ssl.CERT_REQUIRED else 200)


async def test_where_clients_show_tokens_the_console_is_closed() -> None:
    tokens = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    settings = {"sasl.enabled.mechanisms": "OAUTHBEARER", "listener.name.sasl.oauthbearer.sasl.jaas.config": tokens}
    async with Rig(config={"listeners": "SASL_PLAINTEXT://:9093", **settings}) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await browser.get("/topics", 303)
            assert "Nobody can log in" in (await browser.get("/login")).text
