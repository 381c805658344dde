"""What holds a secret does not show it when it is printed, be it by a log line, an exception or a failing test."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.listener_settings import parse_jaas
from broker.network.request import Principal
from broker.security.as_client import Account
from broker.security.sources import ScramCredential, user_credential
from broker.security.tls.stores import KeyMaterial
from controller.delegation_tokens import TokenSettings
from controller.scram import ScramMechanism, stretched, upsertion

SECRET = "geheim"
RECORD = stretched("bob", ScramMechanism.SCRAM_SHA_256, SECRET, b"salt")
UPSERTION = upsertion("bob", ScramMechanism.SCRAM_SHA_256, SECRET, random.Random(1))
JAAS = f'a.b.PlainLoginModule required username="bob" password="{SECRET}";'
CONFIG = {"node.id": "1", "ssl.keystore.password": SECRET, "listener.name.a.plain.sasl.jaas.config": JAAS}


@pytest.mark.parametrize(
    "holder",
    [
        RECORD,
        UPSERTION,
        user_credential(RECORD),
        ScramCredential(b"salt", SECRET.encode(), SECRET.encode(), 4096, Principal("User", "bob")),
        Account("PLAIN", "bob", SECRET),
        parse_jaas(JAAS),
        TokenSettings(SECRET.encode(), 1, 1, 1, 1),
        KeyMaterial(SECRET.encode(), ()),
        BrokerConfig.of(CONFIG),
        BrokerConfig.of({"node.id": "1"}).with_dynamic(CONFIG, CONFIG),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_nothing_secret_is_printed(holder: Any) -> None:
    shown = repr(holder)
    hidden = (SECRET.encode(), RECORD.salt, RECORD.stored_key, RECORD.server_key, UPSERTION.salted_password)
    assert SECRET not in shown
    assert not [secret for secret in hidden if repr(secret)[2:-1] in shown]
