"""Delegation tokens in virtual time: who makes, renews, ends and sees them, and that they log in (KIP-48)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.create_delegation_token.v3.request import CreatableRenewers
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenOwner
from kio.schema.errors import ErrorCode
from kio.serial.errors import OutOfBoundValue

from broker.network.request import ANONYMOUS, Principal
from broker.security import delegation_tokens as index
from controller.decision import Decision
from controller.scram import ScramMechanism
from metadata.image import MetadataImage
from tests.conformance.authentication.conversations_mechanisms import ScramClient, with_proof
from tests.doubles.clock import settle
from tests.doubles.workers import HeldLane
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer

KEY = "a secret key"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "delegation.token.secret.key": KEY,
    "delegation.token.expiry.time.ms": "60000",
    "delegation.token.max.lifetime.ms": "100000",
    "delegation.token.expiry.check.interval.ms": "10000",
}
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(config=SETTINGS) as made:
        yield made


def client_of(rig: Rig, principal: Principal) -> Client:
    client = rig.connect()
    client.connection.principal = principal
    return client


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def since_epoch(when: Any) -> int:
    return int(when.timestamp() * 1000 + 0.5)


async def ask(client: Client, api: str, version: int, **fields: Any) -> Any:
    """The answer; of a refusal without times only the code, as kio does not read the times of one."""
    client.send(api, version, **fields)
    await settle()
    (reply,) = client.replies()
    try:
        return answer(reply, api, version)
    except OutOfBoundValue:
        return SimpleNamespace(error_code=ErrorCode(int.from_bytes(reply[5:7], "big", signed=True)))


async def create(client: Client, *renewers: Principal, lifetime_ms: int = -1, owner: Principal | None = None) -> Any:
    return await ask(
        client,
        "create_delegation_token",
        3,
        owner_principal_type=None if owner is None else owner.type,
        owner_principal_name=None if owner is None else owner.name,
        renewers=tuple(CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in renewers),
        max_lifetime=ms(lifetime_ms),
    )


async def listed(client: Client, owners: tuple[Principal, ...] | None = None) -> list[str]:
    asked = None
    if owners is not None:
        asked = tuple(DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name) for one in owners)
    described = await client.ask("describe_delegation_token", 3, owners=asked)
    assert described.error_code.name == "none"
    return [token.token_id for token in described.tokens]


async def renew(client: Client, secret: bytes, period_ms: int = -1) -> Any:
    return await ask(client, "renew_delegation_token", 2, hmac=secret, renew_period=ms(period_ms))


async def expire(client: Client, secret: bytes, period_ms: int = -1) -> Any:
    return await ask(client, "expire_delegation_token", 2, hmac=secret, expiry_time_period=ms(period_ms))


async def test_a_delegation_token_is_its_owners_and_its_secret_an_hmac_of_its_id(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE), BOB)
    assert made.error_code.name == "none"
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
    assert made.hmac == hmac.digest(KEY.encode(), made.token_id.encode(), "sha512")
    issued = since_epoch(made.issue_timestamp)
    assert since_epoch(made.expiry_timestamp) == issued + 60_000
    assert since_epoch(made.max_timestamp) == issued + 100_000


async def test_a_shorter_life_may_be_asked_for(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE), lifetime_ms=5_000)
    assert since_epoch(made.max_timestamp) == since_epoch(made.expiry_timestamp)
    assert since_epoch(made.max_timestamp) - since_epoch(made.issue_timestamp) == 5_000


async def test_renewers_must_be_users(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE), Principal("Group", "g"))
    assert made.error_code.name == "invalid_principal_type"


async def test_renewers_and_the_length_of_names_are_bounded(rig: Rig) -> None:
    many = [Principal("User", f"renewer-{number}") for number in range(101)]
    assert (await create(client_of(rig, ALICE), *many[:100])).error_code.name == "none"
    assert (await create(client_of(rig, ALICE), *many)).error_code.name == "invalid_request"
    long = Principal("User", "x" * 8_200)
    assert (await create(client_of(rig, ALICE), long)).error_code.name == "invalid_request"
    assert len(rig.node.cluster.cache.image.tokens) == 1


async def test_tokens_of_one_owner_are_bounded() -> None:
    async with Rig(config=SETTINGS | {"odradek.delegation.token.max.per.owner": "2"}) as rig:
        alice = client_of(rig, ALICE)
        made = [await create(alice) for _ in range(3)]
        assert [each.error_code.name for each in made] == ["none", "none", "policy_violation"]
        assert (await create(client_of(rig, BOB))).error_code.name == "none"
        assert (await expire(alice, made[0].hmac)).error_code.name == "none"
        assert (await create(alice)).error_code.name == "none"


async def test_no_hmac_is_computed_to_find_a_token(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [await create(client_of(rig, ALICE)) for _ in range(20)]
    computed: list[object] = []

    def digest(*given: object) -> bytes:
        computed.append(given)
        return b""

    monkeypatch.setattr(hmac, "digest", digest)
    assert (await renew(client_of(rig, BOB), b"unknown")).error_code.name == "delegation_token_not_found"
    assert (await expire(client_of(rig, BOB), b"unknown")).error_code.name == "delegation_token_not_found"
    assert (await renew(client_of(rig, ALICE), made[7].hmac)).error_code.name == "none"
    assert computed == []


async def test_expired_tokens_are_looked_for_in_turns(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "IN_A_TURN", 3)
    for _ in range(10):
        await create(client_of(rig, ALICE), lifetime_ms=1_000)
    await create(client_of(rig, BOB))
    image = rig.node.cluster.cache.image
    asked: list[int] = []

    async def submit(decide: Callable[[MetadataImage], Decision[int]]) -> int:
        asked.append(decide(image).response)
        return asked[-1]

    looking = rig.node.local.tokens.remove_expired(image, rig.clock.wall_ms() + 2_000, submit)
    turns = [looking.send(None) for _ in range(3)]
    assert (turns, asked) == ([None] * 3, [])
    with pytest.raises(StopIteration):
        looking.send(None)
    assert asked == [3, 3, 3, 1]


async def test_a_delegation_token_is_renewed_by_owner_and_renewers_and_not_beyond_its_life(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE), BOB)
    issued = since_epoch(made.issue_timestamp)
    await rig.clock.run(30_000)
    renewed = await renew(client_of(rig, BOB), made.hmac)
    assert since_epoch(renewed.expiry_timestamp) == issued + 90_000
    renewed = await renew(client_of(rig, ALICE), made.hmac, 50_000)
    assert since_epoch(renewed.expiry_timestamp) == issued + 80_000
    await rig.clock.run(40_000)
    renewed = await renew(client_of(rig, ALICE), made.hmac)
    assert since_epoch(renewed.expiry_timestamp) == issued + 100_000
    assert (await renew(client_of(rig, CAROL), made.hmac)).error_code.name == "delegation_token_owner_mismatch"
    assert (await renew(client_of(rig, ALICE), b"wrong")).error_code.name == "delegation_token_not_found"


async def test_a_token_that_expired_cannot_be_renewed_and_is_removed_soon(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE), lifetime_ms=12_000)
    await rig.clock.run(13_000)
    assert (await renew(client_of(rig, ALICE), made.hmac)).error_code.name == "delegation_token_expired"
    await rig.clock.run(10_000)
    assert (await renew(client_of(rig, ALICE), made.hmac)).error_code.name == "delegation_token_not_found"
    assert not rig.node.cluster.cache.image.tokens


async def test_a_token_is_ended_at_once_or_later(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE))
    later = await expire(client_of(rig, ALICE), made.hmac, 1_000)
    assert since_epoch(later.expiry_timestamp) == since_epoch(made.issue_timestamp) + 1_000
    assert (await expire(client_of(rig, BOB), made.hmac)).error_code.name == "delegation_token_owner_mismatch"
    assert (await expire(client_of(rig, ALICE), made.hmac)).error_code.name == "none"
    assert await listed(client_of(rig, ALICE)) == []


async def test_without_an_authorizer_all_see_all_tokens_of_those_they_ask_for(rig: Rig) -> None:
    first = (await create(client_of(rig, ALICE), BOB)).token_id
    second = (await create(client_of(rig, CAROL))).token_id
    assert sorted(await listed(client_of(rig, CAROL))) == sorted([first, second])
    assert await listed(client_of(rig, CAROL), (BOB,)) == [first]
    assert await listed(client_of(rig, CAROL), ()) == []


async def test_tokens_are_not_for_strangers_nor_for_who_came_by_one(rig: Rig) -> None:
    with_token = Principal("User", "alice", token_authenticated=True)
    refused = await create(client_of(rig, with_token))
    assert refused.error_code.name == "delegation_token_request_not_allowed"
    async with Rig(config=SETTINGS | {"listener.security.protocol.map": "PLAINTEXT:SSL"}) as tls:
        assert (await create(client_of(tls, ANONYMOUS))).error_code.name == "delegation_token_request_not_allowed"
        assert (await create(client_of(tls, ALICE))).error_code.name == "none"


async def test_without_delegation_token_secret_key_there_are_no_tokens() -> None:
    config = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"}
    async with Rig(config=config) as rig:
        client = client_of(rig, ALICE)
        for refused in (await create(client), await renew(client, b"x"), await expire(client, b"x")):
            assert refused.error_code.name == "delegation_token_auth_disabled"
            assert since_epoch(refused.expiry_timestamp) == 0
    async with Rig(config=config | {"delegation.token.master.key": KEY}) as rig:
        assert (await create(client_of(rig, ALICE))).error_code.name == "none"


async def test_a_delegation_token_stands_for_a_scram_credential_of_its_owner_until_it_expires(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE), lifetime_ms=5_000)
    find = rig.node.base.credentials.find
    computed = find(ScramMechanism.SCRAM_SHA_256, made.token_id, True)
    assert isinstance(computed, Awaitable)
    credential = await computed
    assert (credential.owner, credential.owner.token_authenticated) == (ALICE, True)
    assert credential.expires_ms == since_epoch(made.expiry_timestamp)
    assert find(ScramMechanism.SCRAM_SHA_256, made.token_id, False) is None
    assert stored_key(b64encode(made.hmac), credential.salt, credential.iterations) == credential.stored_key
    assert find(ScramMechanism.SCRAM_SHA_256, made.token_id, True) == credential  # it is computed once
    await rig.clock.run(5_001)
    assert find(ScramMechanism.SCRAM_SHA_256, made.token_id, True) is None


async def test_a_worker_computes_the_credential_of_a_token() -> None:
    workers = HeldLane("security")
    config = SETTINGS | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    async with Rig(config=config, workers=workers) as rig:
        opened = asyncio.ensure_future(rig.secure("SASL", "SASL_PLAINTEXT"))
        await settle()
        workers.run_next()
        await opened
        made = await create(client_of(rig, ALICE))
        showing = ScramClient(made.token_id, "sha256", b64encode(made.hmac).decode(), extensions=",tokenauth=true")

        client = rig.connect(listener="SASL")
        await client.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
        client.send("sasl_authenticate", 1, auth_bytes=showing.first)
        await settle()
        assert client.replies() == [], "the loop has computed it itself"
        workers.run_next()
        await settle()
        (reply,) = client.replies()
        challenge = answer(reply, "sasl_authenticate", 1).auth_bytes.decode()
        final = with_proof(*showing.final(challenge)[:2])
        assert (await client.ask("sasl_authenticate", 1, auth_bytes=final)).error_code.name == "none"
        assert client.connection.principal == ALICE
        assert client.connection.principal.token_authenticated


def stored_key(password: bytes, salt: bytes, iterations: int) -> bytes:
    """RFC 5802."""
    salted = hashlib.pbkdf2_hmac("sha256", password, salt, iterations)
    return hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()


async def test_tokens_outlive_a_crash(rig: Rig) -> None:
    made = await create(client_of(rig, ALICE))
    await settle()
    following = await rig.crash()
    assert await listed(client_of(following, ALICE)) == [made.token_id]
    await following.stop()
