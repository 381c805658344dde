"""Nobody who logs in learns which users exist: not by the answers, nor by the work that an answer takes.

Work is counted, since times differ from one machine to the next.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.current import CurrentConfig
from broker.security.credentials import Credentials, kafka_salt
from broker.security.sasl.conversation import AuthenticationError, Challenge
from broker.security.sasl.plain import PlainConversation
from controller.scram import MIN_ITERATIONS, SALT_BYTES, ScramMechanism, credential, salted
from metadata.maps import Map
from tests.doubles.workers import LoopWorkers
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_login import add_user, refused
from tests.unit.broker.rig import Rig

SHA_256, SHA_512 = ScramMechanism
NAMES = [f"user-{number}" for number in range(200)]
SASL = {
    "listeners": "SASL_PLAINTEXT://:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "odradek.users": "anna:right",
}


def node(cluster: str = "a", users: dict[str, tuple[int, bytes]] | None = None, **config: str) -> Credentials:
    """One that has started, where these users have iterations and a salt."""
    current = CurrentConfig(BrokerConfig.of({"node.id": "1", **{k.replace("_", "."): v for k, v in config.items()}}))
    made = Credentials(current, Random(), lambda: 0, LoopWorkers())
    made.name_cluster(cluster)
    records = {
        (name, SHA_256): credential(salted(name, SHA_256, "p", salt, iterations))
        for name, (iterations, salt) in (users or {}).items()
    }
    cache: Any = SimpleNamespace(image=SimpleNamespace(scram=Map(records), tokens=Map()))
    made.use(cache)
    return made


def challenge(of: Credentials, name: str, mechanism: ScramMechanism = SHA_256) -> tuple[bytes, int]:
    found = of.unknown(mechanism, name, False)
    return found.salt, found.iterations


def test_an_unknown_user_has_one_salt_in_all_attempts_restarts_and_brokers() -> None:
    here, there = node(), node()
    for name in ("nobody", "", "注文", "\udcff"):
        assert challenge(here, name) == challenge(here, name) == challenge(there, name)
        assert challenge(here, name)[0] != challenge(here, name, SHA_512)[0]
        assert challenge(here, name)[0] != challenge(node("another cluster"), name)[0]
        assert challenge(here, name)[0] != challenge(node(delegation_token_secret_key="s"), name)[0]
    assert len({challenge(here, name) for name in NAMES}) == len(NAMES)


def test_an_unknown_user_looks_like_those_there_are() -> None:
    assert {(len(salt), iterations) for salt, iterations in (challenge(node(), name) for name in NAMES)} == {
        (SALT_BYTES, MIN_ITERATIONS)
    }
    by_librdkafka, by_kafka = bytes(range(64)), kafka_salt(hashlib.sha512(b"x").digest())
    here = node(users={"a": (8192, by_librdkafka), "b": (16384, by_kafka), "c": (8192, by_kafka)})
    seen = Counter(
        (iterations, "kafka" if re.fullmatch(rb"[0-9a-z]{24,26}", salt) else len(salt))
        for salt, iterations in (challenge(here, name) for name in NAMES)
    )
    assert seen.keys() == {(MIN_ITERATIONS, SALT_BYTES), (8192, 64), (16384, "kafka"), (8192, "kafka")}
    assert min(seen.values()) > len(NAMES) / 10
    assert {challenge(here, name, SHA_512)[1] for name in NAMES} == {MIN_ITERATIONS}


def test_a_salt_as_kafkas_is_130_bits_in_base_36() -> None:
    for digest in (hashlib.sha512(name.encode()).digest() for name in NAMES):
        assert int(kafka_salt(digest), 36) == int.from_bytes(digest[:17]) >> 6
        assert int(kafka_salt(digest), 36) < 1 << 130


def test_no_proof_is_that_of_an_unknown_user() -> None:
    one, other = (node().unknown(SHA_256, "nobody", False) for _ in range(2))
    assert one.salt == other.salt and one.stored_key != other.stored_key


async def scram_of(rig: Rig, mechanism: str, name: str, extra: str = "") -> list[tuple[str, str]]:
    """What the messages of a login with a wrong password are answered, without what is random or the name's own."""
    begin = rig.node.local.security.listeners["SASL"].prepared.sasl
    assert begin is not None
    conversation, told = begin.mechanisms[mechanism](), []
    first = f"{extra or 'n,,'}n={name},r=abc"
    try:
        step: Any = conversation.evaluate(first.encode())
        assert isinstance(step, Challenge)
        parts = dict(part.split("=", 1) for part in step.data.decode().split(","))
        told.append(("challenge", f"{[*parts]} {len(parts['s'])} {len(parts['r'])} {parts['i']}"))
        proof = b64encode(bytes(32 if mechanism == "SCRAM-SHA-256" else 64)).decode()
        conversation.evaluate(f"c=biws,r={parts['r']},p={proof}".encode())
    except AuthenticationError as error:
        told.append(("refused", str(error)))
    return told


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_answers_an_unknown_user_as_a_wrong_password_and_hashes_as_often(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def counted(name: str, module: Any) -> None:
        real = getattr(module, name)

        def work(*given: Any) -> Any:
            hashed.append(name)
            return real(*given)

        monkeypatch.setattr(module, name, work)

    async with Rig(config=SASL) as rig:
        await add_user(rig, "otto", "right")
        await rig.secure("SASL", "SASL_PLAINTEXT")
        for name, module in (("shake_256", hashlib), ("digest", hmac), ("compare_digest", hmac)):
            counted(name, module)
        for extra in ("", "n,a=another,"):
            hashed.clear()
            known = await scram_of(rig, mechanism, "anna", extra)
            work = [*hashed]
            assert "shake_256" in work
            assert [kind for kind, _ in known] == (["refused"] if extra else ["challenge", "refused"])
            for name in ("nobody", "otto", "=2C"):
                hashed.clear()
                assert await scram_of(rig, mechanism, name, extra) == known
                assert hashed == work


async def test_users_of_the_settings_keep_their_salt_over_a_restart() -> None:
    salts = []
    for _ in range(2):
        async with Rig(config=SASL) as rig:
            await rig.secure("SASL", "SASL_PLAINTEXT")
            sasl = rig.node.local.security.listeners["SASL"].prepared.sasl
            assert sasl is not None
            step: Any = sasl.mechanisms["SCRAM-SHA-256"]().evaluate(b"n,,n=anna,r=abc")
            salts.append(step.data.decode().split(",")[1])
    assert salts[0] == salts[1]


async def test_the_consoles_login_hashes_as_often_for_an_unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    work: Counter[str] = Counter()
    stretch, compare = hashlib.pbkdf2_hmac, hmac.compare_digest

    def counted_stretch(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        work[digest] += iterations
        return stretch(digest, password, salt, iterations)

    def counted_compare(known: Any, given: Any) -> bool:
        work["comparisons"] += 1
        return compare(known, given)

    async with Rig(config=SASL) as rig:
        await add_user(rig, "otto", "right")
        await rig.secure("SASL", "SASL_PLAINTEXT")
        monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted_stretch)
        monkeypatch.setattr(hmac, "compare_digest", counted_compare)
        async with browsing(rig) as browser:
            seen = []
            for name in ("anna", "otto", "nobody"):
                work.clear()
                text = await refused(rig, browser, name, "wrong")
                seen.append((text.replace(name, ""), dict(work)))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1]["sha256"] == seen[0][1]["sha512"] == MIN_ITERATIONS


def test_plain_compares_once_for_whoever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def compare(_known: bytes, given: bytes) -> bool:
        compared.append(len(given))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    texts = set()
    for name in ("anna", "nobody"):
        for on_behalf_of in ("", "another"):
            with pytest.raises(AuthenticationError) as refused:
                PlainConversation({"anna": "right"}).evaluate(f"{on_behalf_of}\0{name}\0wrong".encode())
            texts.add(str(refused.value))
    assert (compared, len(texts)) == ([5] * 4, 1)
