"""Whose users log in at the console, how many at once, with how many sessions: nobody locks out or logs out others."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import pytest

from broker.console.login import (
    MOST_AT_ONCE,
    MOST_AT_ONCE_OF_USER,
    MOST_SESSIONS,
    MOST_SESSIONS_THERE,
    REFUSAL_MS,
    Logins,
)
from broker.security.node_security import ListenerSecurity, Prepared
from broker.testkit.control.endpoint import ControlError
from tests.doubles.clock import settle
from tests.unit.broker.console.test_login import JAAS, SASL
from tests.unit.broker.rig import Rig

INSIDE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_node="n";'
TWO = {
    "listeners": "SASL_PLAINTEXT://:9093",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.outside.plain.sasl.jaas.config": JAAS,
    "listener.name.inside.plain.sasl.jaas.config": INSIDE,
}
HERE, THERE = "192.0.2.1", "192.0.2.2"


async def token(rig: Rig, logins: Logins, user: str, password: str, address: str = HERE) -> str | None:
    asked = asyncio.ensure_future(logins.begin(user, password, address))
    while not asked.done():
        await rig.clock.run(REFUSAL_MS)
    return await asked


async def test_guesses_from_one_address_keep_nobody_elsewhere_from_logging_in() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        logins = Logins(rig.node)
        guesses = [
            asyncio.ensure_future(logins.begin(f"guess-{number}", "wrong", HERE)) for number in range(MOST_AT_ONCE)
        ]
        await settle()
        with pytest.raises(ControlError, match=f"too many logins at once from {HERE}"):
            await logins.begin("anna", "a=,secret", HERE)
        assert await logins.begin("anna", "a=,secret", THERE) is not None
        await rig.clock.run(REFUSAL_MS)
        assert [await one for one in guesses] == [None] * MOST_AT_ONCE
        assert await logins.begin("anna", "a=,secret", HERE) is not None
        assert not logins._running


async def test_guesses_at_one_user_keep_no_other_user_of_the_address_from_logging_in() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        logins = Logins(rig.node)
        guesses = [asyncio.ensure_future(logins.begin("otto", "wrong", HERE)) for _ in range(MOST_AT_ONCE_OF_USER)]
        await settle()
        with pytest.raises(ControlError, match="too many logins"):
            await logins.begin("otto", "o", HERE)
        assert await logins.begin("otto", "o", THERE) is not None
        assert await logins.begin("anna", "a=,secret", HERE) is not None
        await rig.clock.run(REFUSAL_MS)
        await asyncio.gather(*guesses)


async def test_sessions_of_one_user_and_address_end_no_others() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        logins = Logins(rig.node)
        others = [
            await logins.begin("otto", "o", HERE),
            await logins.begin("anna", "a=,secret", THERE),
        ]
        mine = [await logins.begin("anna", "a=,secret", HERE) for _ in range(2 * MOST_SESSIONS)]
        assert all(logins.rights(one, THERE) for one in others)
        assert [logins.rights(one, HERE) is not None for one in mine[-MOST_SESSIONS_THERE - 1 :]] == [
            False,
            *[True] * MOST_SESSIONS_THERE,
        ]
        for number in range(2 * MOST_SESSIONS):
            await logins.begin("anna", "a=,secret", f"10.0.0.{number}")
        assert logins.rights(others[0], HERE) is not None
        assert len(logins._sessions) == MOST_SESSIONS + 1
        assert sum(map(len, logins._tokens.values())) == MOST_SESSIONS + 1


async def test_a_session_lasts_no_longer_than_a_connection_of_the_listener() -> None:
    async with Rig(config=SASL | {"connections.max.reauth.ms": "60000"}) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        logins = Logins(rig.node)
        begun = await logins.begin("anna", "a=,secret", HERE)
        assert logins.rights(begun, HERE) is not None
        rig.clock.advance(60_001)
        assert logins.rights(begun, HERE) is None
        await logins.begin("anna", "a=,secret", HERE)
        assert len(logins._sessions) == 1, "what is over is forgotten"


@pytest.mark.parametrize(
    ("settings", "users"),
    [
        ({}, {"anna", "node"}),
        ({"odradek.console.login.listeners": "outside"}, {"anna"}),
        ({"odradek.console.login.listeners": "inside"}, {"node"}),
        ({"inter.broker.listener.name": "INSIDE"}, {"anna"}),
        ({"controller.listener.names": "CONTROLLER,inside"}, {"anna"}),
        ({"inter.broker.listener.name": "INSIDE", "odradek.console.login.listeners": "INSIDE"}, set()),
    ],
)
async def test_users_of_the_listeners_for_clients_log_in_and_nodes_do_not(
    settings: Mapping[str, str], users: set[str]
) -> None:
    async with Rig(config={**TWO, **settings}) as rig:
        await rig.secure("OUTSIDE", "SASL_PLAINTEXT")
        await rig.secure("INSIDE", "SASL_PLAINTEXT")
        logins = Logins(rig.node)
        passwords = {"anna": "a=,secret", "node": "n"}
        assert {user for user, word in passwords.items() if await token(rig, logins, user, word)} == users
        assert logins.users is bool(users)


async def test_the_only_listener_is_for_clients_though_brokers_use_it_too() -> None:
    async with Rig(config=SASL | {"inter.broker.listener.name": "SASL"}) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        rig.node.bound.advertised.clear()
        assert await token(rig, Logins(rig.node), "anna", "a=,secret")


@pytest.mark.parametrize(
    ("mode", "logs_in"), [(ssl.CERT_NONE, True), (ssl.CERT_OPTIONAL, True), (ssl.CERT_REQUIRED, False)]
)
async def test_a_password_is_not_enough_where_clients_need_a_certificate_too(
    mode: ssl.VerifyMode, logs_in: bool
) -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        listener = rig.node.local.security.listeners["SASL"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = mode
        prepared = Prepared(context, None, (), listener.prepared.sasl, {})
        rig.node.local.security.listeners["SASL"] = ListenerSecurity(
            listener.listener, prepared, rig.clock, rig.node.base.request_wheel
        )
        logins = Logins(rig.node)
        assert bool(await token(rig, logins, "anna", "a=,secret")) is logs_in
        assert logins.required


async def test_a_refusal_takes_as_long_whatever_was_looked_at() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        logins = Logins(rig.node)
        for work_ms in (0, REFUSAL_MS / 3):  # as a name that SCRAM knows, whose password is stretched

            async def refuse(_user: str, _password: str, work_ms: float = work_ms) -> None:
                await rig.clock.sleep(work_ms)

            logins._passwords.authenticated = refuse  # type: ignore[assignment]
            began_ms = rig.clock.monotonic_ms()
            asked = asyncio.ensure_future(logins.begin("anna", "wrong", HERE))
            while not asked.done():
                await rig.clock.run(1)
            assert rig.clock.monotonic_ms() - began_ms == pytest.approx(REFUSAL_MS, abs=1)
