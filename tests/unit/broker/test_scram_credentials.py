"""SCRAM credentials: what is kept of them, for how long, and that no alteration is lost. The answers are golden."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64decode

from broker.security.scram_credentials import Deletion, ScramCredentials, ScramMechanism, Upsertion

from protocol.errors import DuplicateResource, ResourceNotFound
from tests.unit.broker.admin_rig import Rig

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SALTED_PASSWORD = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
ODD_NAME = "a/b \N{SNOWMAN}"


def upsertion(user: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, SALT, SALTED_PASSWORD)


async def test_a_credential_is_kept_as_rfc_7677_has_it_and_never_the_password() -> None:
    rig = await Rig.open()
    assert await rig.node.scram_credentials.alter([upsertion("user")]) == {"user": None}
    stored = await rig.node.metadata.get("/scram/user")
    assert json.loads(stored.value) == {
        "SCRAM_SHA_256": {
            "salt": "W22ZaJ0SNY7soEsUEjb6gQ==",
            "stored_key": "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=",
            "server_key": "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
            "iterations": 4096,
        }
    }


async def test_alterations_are_seen_at_once_and_after_a_restart() -> None:
    rig = await Rig.open()
    credentials = rig.node.scram_credentials
    await credentials.alter([upsertion(ODD_NAME), upsertion("other", SHA_512, 5000)])
    await credentials.alter([upsertion(ODD_NAME, SHA_512, 6000), Deletion("other", SHA_512)])
    for each in (credentials, (await Rig.open(rig.fs)).node.scram_credentials):
        assert each.users() == [ODD_NAME]
        assert each.iterations(ODD_NAME) == {SHA_256: 4096, SHA_512: 6000}
        assert each.iterations("other") == {}


async def test_one_users_refusal_leaves_the_others() -> None:
    credentials = (await Rig.open()).node.scram_credentials
    outcome = await credentials.alter(
        [Deletion("none", SHA_256), upsertion("one"), upsertion("twice"), upsertion("twice", SHA_512)]
    )
    assert {user: type(error) for user, error in outcome.items()} == {
        "none": ResourceNotFound,
        "one": type(None),
        "twice": DuplicateResource,
    }
    assert credentials.users() == ["one"]


async def test_repeated_users_stand_where_kafka_decides_on_them() -> None:
    credentials = (await Rig.open()).node.scram_credentials
    again = [upsertion("a"), Deletion("none", SHA_256), upsertion("b"), upsertion("b"), upsertion("a")]
    assert [*await credentials.alter(again)] == ["none", "b", "a"]
    assert credentials.users() == []


async def test_alterations_at_the_same_time_are_both_kept() -> None:
    rig = await Rig.open()
    one, other = rig.node.scram_credentials, await ScramCredentials.open(rig.node.metadata)
    await asyncio.gather(one.alter([upsertion("u", SHA_256)]), other.alter([upsertion("u", SHA_512, 5000)]))
    assert one.iterations("u") == other.iterations("u") == {SHA_256: 4096, SHA_512: 5000}
