"""Tokens of OAUTHBEARER: signed ones with keys from a file, and unsigned ones."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from broker.security.sasl.conversations import BadTokenError, Token
from broker.security.sasl.jwks import Jwks, KeysError, Refresh, read_keys
from broker.security.sasl.signed_tokens import Expectations, SignedTokens
from broker.security.sasl.unsecured_tokens import UnsecuredTokens
from tests.doubles.clock import ManualClock
from tests.doubles.workers import LoopWorkers

RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
NOW_S = ManualClock().wall_ms() // 1000
CLAIMS = {"sub": "olga", "iat": NOW_S, "exp": NOW_S + 600, "aud": ["kafka", "x"], "iss": "https://idp", "scope": "a b"}
ANY = Expectations((), None, 30, "scope", "sub")
REFRESH = Refresh(refresh_ms=60_000, backoff_ms=100, backoff_max_ms=1_000)


def jwk(key: Any, **more: str) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    found: dict[str, Any] = algorithm.to_jwk(key.public_key(), as_dict=True)
    return found | more


class Keys:
    """A file of keys."""

    def __init__(self, folder: Path, *keys: dict[str, Any]) -> None:
        self.path = folder / "keys.json"
        self.url = self.path.as_uri()
        self.write(*keys)

    def write(self, *keys: dict[str, Any]) -> None:
        self.path.write_text(json.dumps({"keys": keys}))


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path, jwk(RSA_KEY, kid="r"), jwk(EC_KEY, kid="e"))


def validator(keys: Keys, expected: Expectations = ANY, clock: ManualClock | None = None) -> SignedTokens:
    clock = clock or ManualClock()
    return SignedTokens(Jwks(keys.url, REFRESH, clock, LoopWorkers()), expected, clock.wall_ms)


def signed(
    claims: Mapping[str, Any] = CLAIMS, key: Any = RSA_KEY, kid: str | None = "r", algorithm: str = "RS256"
) -> str:
    return jwt.encode(dict(claims), key, algorithm, None if kid is None else {"kid": kid})


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


@pytest.mark.parametrize(
    "token",
    [
        signed(),
        signed(key=EC_KEY, kid="e", algorithm="ES256"),
        signed(algorithm="PS384"),
        signed(kid=None),
        signed(key=EC_KEY, kid=None, algorithm="ES256"),
        signed(CLAIMS | {"iat": NOW_S + 500}),
        signed(CLAIMS | {"iat": NOW_S - 900, "exp": NOW_S - 29}),
        signed(CLAIMS | {"nbf": NOW_S + 29}),
        signed(CLAIMS | {"scope": ["a", "b"]}),
        signed(without("scope")),
    ],
)
async def test_good_tokens(keys: Keys, token: str) -> None:
    assert (await validator(keys).validate(token)).name == "olga"


@pytest.mark.parametrize(
    "token",
    [
        signed(key=OTHER_RSA),
        signed(kid="unknown"),
        signed(key=EC_KEY, kid="r", algorithm="ES256"),
        signed(CLAIMS | {"exp": NOW_S - 30}),
        signed(CLAIMS | {"nbf": NOW_S + 31}),
        signed(without("exp")),
        signed(without("iat")),
        signed(without("sub")),
        signed(CLAIMS | {"sub": " "}),
        signed(CLAIMS | {"sub": 7}),
        signed(CLAIMS | {"exp": "soon"}),
        signed(CLAIMS | {"exp": 10**400}),
        signed(CLAIMS | {"scope": 7}),
        signed(CLAIMS | {"scope": [7]}),
        signed()[:-4] + "AAAA",
        jwt.encode(CLAIMS, "", "none"),
        jwt.encode(CLAIMS, "a secret of thirty-two characters", "HS256", {"kid": "r"}),
        "a.b.c",
        "a",
        "",
    ],
)
async def test_bad_tokens(keys: Keys, token: str) -> None:
    with pytest.raises(BadTokenError):
        await validator(keys).validate(token)


@pytest.mark.parametrize(
    ("expected", "good"),
    [
        (Expectations(("kafka",), "https://idp", 30, "scope", "sub"), True),
        (Expectations(("other", "x"), None, 30, "scope", "sub"), True),
        (Expectations(("other",), None, 30, "scope", "sub"), False),
        (Expectations((), "https://other", 30, "scope", "sub"), False),
        (Expectations((), None, 30, "scope", "iss"), True),
    ],
)
async def test_audience_issuer_and_the_claim_of_the_name(keys: Keys, expected: Expectations, good: bool) -> None:
    if good:
        assert await validator(keys, expected).validate(signed())
    else:
        with pytest.raises(BadTokenError):
            await validator(keys, expected).validate(signed())


async def test_a_public_key_is_no_shared_secret(keys: Keys) -> None:
    """The well-known confusion of algorithms: a token signed with the public key's text as a secret."""
    header, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "r"}, CLAIMS)
    )
    with pytest.raises(BadTokenError, match="not signed in a way"):
        await validator(keys).validate(b".".join([header, claims, b"AAAA"]).decode())


async def test_an_unknown_key_id_has_the_keys_read_again_but_not_all_the_time(keys: Keys) -> None:
    clock = ManualClock()
    tokens = validator(keys, clock=clock)
    await tokens.validate(signed())
    clock.advance(REFRESH.backoff_ms)
    keys.write(jwk(OTHER_RSA, kid="new"))
    assert await tokens.validate(signed(key=OTHER_RSA, kid="new"))
    keys.write(jwk(RSA_KEY, kid="newer"))
    with pytest.raises(BadTokenError):
        await tokens.validate(signed(kid="newer"))
    clock.advance(REFRESH.backoff_ms)
    assert await tokens.validate(signed(kid="newer"))


async def test_keys_that_cannot_be_read_again_are_used_on(keys: Keys) -> None:
    clock = ManualClock()
    tokens = validator(keys, clock=clock)
    await tokens.validate(signed())
    keys.path.unlink()
    clock.advance(REFRESH.refresh_ms)
    assert await tokens.validate(signed(CLAIMS | {"exp": NOW_S + 6000}))


async def test_without_keys_no_token_is_good(keys: Keys) -> None:
    keys.path.unlink()
    with pytest.raises(BadTokenError, match="the keys could not be read"):
        await validator(keys).validate(signed())


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"keys": []}', '{"keys": 7}', '{"keys": [{"kty": "oct", "k": "eA"}]}']
)
def test_what_is_no_set_of_keys(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(KeysError):
        read_keys(path.as_uri())


def test_an_answer_that_is_no_http_is_no_set_of_keys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(b"no HTTP\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(KeysError, match="no HTTP"):
            read_keys(f"http://127.0.0.1:{server.getsockname()[1]}/keys")
        thread.join()


def test_unsuitable_keys_are_left_out(tmp_path: Path) -> None:
    keys = Keys(tmp_path, jwk(RSA_KEY, use="enc"), {"kty": "odd"}, jwk(EC_KEY, kid="e"))
    assert [key.key_id for key in read_keys(keys.url)] == ["e"]


# -- without a signature


async def test_options_of_unsigned_tokens() -> None:
    clock = ManualClock()
    options = {
        "unsecuredValidatorPrincipalClaimName": "who",
        "unsecuredValidatorRequiredScope": "read write",
        "unsecuredValidatorAllowableClockSkewMs": "5000",
    }
    tokens = UnsecuredTokens(options, clock.wall_ms)

    def token(**claims: object) -> str:
        return jwt.encode({"who": "w", "exp": NOW_S + 1, "scope": ["read", "write", "more"], **claims}, "", "none")

    assert await tokens.validate(token(exp=NOW_S - 4)) == Token("w", (NOW_S - 4) * 1000)
    with pytest.raises(BadTokenError):
        await tokens.validate(token(exp=NOW_S - 5))
    for endless in (10**400, float("inf"), float("nan")):
        with pytest.raises(BadTokenError, match="exp is no time"):
            await tokens.validate(token(exp=endless))
    with pytest.raises(BadTokenError) as caught:
        await tokens.validate(token(scope="read"))
    assert (caught.value.status, caught.value.scope) == ("insufficient_scope", "read write")
    with pytest.raises(ValueError, match="negative"):
        UnsecuredTokens({"unsecuredValidatorAllowableClockSkewMs": "-1"}, clock.wall_ms)


def test_the_manual_clock_stands_in_the_past() -> None:
    """A validator that read the machine's clock would call every good token above expired."""
    assert time.time() > NOW_S + 6000
