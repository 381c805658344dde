"""Cipher suites by their IANA names, which Java and Kafka use, as OpenSSL names them."""

from __future__ import annotations

import re

from broker.security.errors import SecurityError

TLS13_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLSv1.3 that OpenSSL has on; Python's `ssl` cannot choose among them."""

_IANA = r"TLS_(?:(.+)_)?WITH_(.+)_(SHA\d*|CCM|CCM_8)"
_CIPHERS = {"3DES_EDE_CBC": "DES-CBC3"}


def openssl_name(suite: str) -> str:
    """The name of a suite of TLSv1.2; one that is none of IANA's is returned as it is."""
    match = re.fullmatch(_IANA, suite)
    if match is None:
        return suite
    exchange, cipher, digest = match.groups()
    if cipher == "CHACHA20_POLY1305":
        cipher, digest = "CHACHA20-POLY1305", ""
    cipher = _CIPHERS.get(cipher) or re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).replace("_", "-")
    cipher = cipher.removesuffix("-CBC")
    parts = ["" if exchange == "RSA" else exchange.replace("_", "-"), cipher, digest.replace("_", "")]
    return "-".join(part for part in parts if part)


def split_suites(key: str, suites: tuple[str, ...]) -> tuple[str, bool]:
    """OpenSSL's list of those of TLSv1.2, and whether TLSv1.3 is wanted. Raises SecurityError, which names `key`."""
    newest = [suite for suite in suites if suite in TLS13_SUITES]
    if newest and len(set(newest)) < len(TLS13_SUITES):
        missing = ", ".join(suite for suite in TLS13_SUITES if suite not in newest)
        raise SecurityError(
            f"{key}: expected all suites of TLSv1.3 or none, as they cannot be chosen singly: add {missing}"
        )
    older = [openssl_name(suite) for suite in suites if suite not in TLS13_SUITES]
    return ":".join(older), bool(newest)
