"""Who guesses at names learns by the work of an answer no more than the answers of Kafka say.

Work is counted, since times differ from one machine to the next.
"""

from __future__ import annotations

import hmac
from typing import Any

import pytest

from broker.security.sasl.conversations import AuthenticationError, PlainConversation
from tests.unit.broker.rig import Rig

SASL = {
    "listeners": "SASL_PLAINTEXT://:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "odradek.users": "anna:right",
}


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
