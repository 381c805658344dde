"""What `odradek.tls.folder`, `odradek.users` and `odradek.users.file` amount to where Kafka's settings are not set.

With the folder, a TLS listener has the certificates in it (`broker.security.tls.own_authority` makes them). With users,
a SASL listener takes its users by every mechanism that knows passwords.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from broker.config.listener_settings import USERS, USERS_FILE

FOLDER, CLIENTS = "odradek.tls.folder", "odradek.tls.clients"
AUTHORITY, BROKER = "ca.pem", "broker.pem"

_KEYSTORES = ("ssl.keystore.location", "ssl.keystore.key")
_TRUSTSTORES = ("ssl.truststore.location", "ssl.truststore.certificates")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")


def client_file(name: str) -> str:
    """The file of a client's key and certificate. Raises ValueError for a name that cannot be a file's."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{CLIENTS} has {name!r}: expected letters, digits, and . _ @ - inside")
    return f"client-{name}.pem"


def implied_settings(given: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """By name: the value, and the setting that it follows from."""
    implied: dict[str, tuple[str, str]] = {}
    folder = given.get(FOLDER, "").strip()
    if folder and not any(given.get(name) for name in _KEYSTORES):
        implied["ssl.keystore.type"] = "PEM", FOLDER
        implied["ssl.keystore.location"] = os.path.join(folder, BROKER), FOLDER
    if folder and not any(given.get(name) for name in _TRUSTSTORES):
        implied["ssl.truststore.type"] = "PEM", FOLDER
        implied["ssl.truststore.location"] = os.path.join(folder, AUTHORITY), FOLDER
    for name in (USERS, USERS_FILE):
        if given.get(name, "").strip():
            implied["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", name
    return {name: found for name, found in implied.items() if name not in given}
