"""Keystores and truststores of every kind, and what each bad one is told."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st
from trustme import CA

from broker.config.broker_config import BrokerConfig
from broker.config.listener_settings import ListenerSettings
from broker.security.sources import SecurityError
from broker.security.tls.contexts import client_context, server_context
from broker.security.tls.stores import JksError, load_key, load_trusted, read_jks
from tests.certificates import pair

CA_, OTHER = CA(), CA()
PAIR = pair(CA_)
PASSWORD = "geheim"


JKS = (Path(__file__).parent / "keytool.jks").read_bytes()
"""Made by keytool of Java 17: a key and its certificate, and another certificate that is trusted."""


def settings(**values: str) -> ListenerSettings:
    return ListenerSettings(BrokerConfig.of({name.replace("_", "."): value for name, value in values.items()}), "X")


def encrypted(key: bytes) -> bytes:
    return load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
    )


def stored(folder: Path, content: bytes, **values: str) -> ListenerSettings:
    (folder / "store").write_bytes(content)
    return settings(ssl_keystore_location=str(folder / "store"), **values)


def common_name(found: ListenerSettings) -> str:
    material = load_key(found)
    assert material is not None
    return str(material.certificate.subject.rfc4514_string())


def test_pem_in_a_file_inline_and_encrypted(tmp_path: Path) -> None:
    expected = common_name(stored(tmp_path, PAIR.pem, ssl_keystore_type="PEM"))
    assert "CN=broker" in expected
    assert common_name(stored(tmp_path, PAIR.chain + PAIR.key, ssl_keystore_type="PEM")) == expected
    locked = encrypted(PAIR.key) + PAIR.chain
    assert common_name(stored(tmp_path, locked, ssl_keystore_type="PEM", ssl_key_password=PASSWORD)) == expected
    inline = {"ssl_keystore_key": PAIR.key.decode(), "ssl_keystore_certificate_chain": PAIR.chain.decode()}
    assert common_name(settings(ssl_keystore_type="PEM", **inline)) == expected
    unneeded = stored(tmp_path, PAIR.pem, ssl_keystore_type="PEM", ssl_key_password=PASSWORD)
    assert common_name(unneeded) == expected


def test_a_folder_has_key_and_certificate_as_kubernetes_mounts_a_secret(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_bytes(PAIR.key)
    (tmp_path / "tls.crt").write_bytes(PAIR.chain)
    assert "CN=broker" in common_name(settings(ssl_keystore_type="PEM", ssl_keystore_location=str(tmp_path)))
    with pytest.raises(SecurityError, match=r"is a folder with tls.key and tls.crt: set ssl.keystore.type=PEM"):
        load_key(settings(ssl_keystore_location=str(tmp_path)))
    (tmp_path / "tls.crt").unlink()
    with pytest.raises(SecurityError, match="the file cannot be read: No such file"):
        load_key(settings(ssl_keystore_type="PEM", ssl_keystore_location=str(tmp_path)))


@pytest.mark.parametrize("kind", ["PKCS12", "pkcs12", "JKS"])
def test_pkcs12_which_java_takes_for_jks_too(tmp_path: Path, kind: str) -> None:
    store = stored(tmp_path, PAIR.pkcs12(PASSWORD), ssl_keystore_type=kind, ssl_keystore_password=PASSWORD)
    assert "CN=broker" in common_name(store)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_jks_as_keytool_made_it(tmp_path: Path, kind: str) -> None:
    passwords = {"ssl_keystore_password": "store-secret", "ssl_key_password": "key-secret"}
    store = stored(tmp_path, JKS, ssl_keystore_type=kind, **passwords)
    assert common_name(store) == "CN=broker"
    material = load_key(store)
    assert material is not None
    assert server_context(store, material).cert_store_stats()["x509"] == 0
    truststore = {"ssl_truststore_location": str(tmp_path / "store"), "ssl_truststore_type": kind}
    for password in ({}, {"ssl_truststore_password": "store-secret"}):
        found = load_trusted(settings(**truststore, **password))
        assert {one.subject.rfc4514_string() for one in found} == {"CN=authority", "CN=broker"}
    with pytest.raises(SecurityError, match=r"cannot be opened: expected the right ssl.truststore.password"):
        load_trusted(settings(**truststore, ssl_truststore_password="wrong"))


@given(st.integers(0, len(JKS) - 1), st.integers(0, 255))
def test_a_damaged_jks_store_is_told_or_opened(place: int, value: int) -> None:
    """Without a password nothing says whether it was altered, as in Java."""
    with suppress(JksError):
        read_jks(JKS[:place] + bytes([value]) + JKS[place + 1 :], None)


def test_trusted_certificates(tmp_path: Path) -> None:
    both = CA_.cert_pem.bytes() + OTHER.cert_pem.bytes()
    (tmp_path / "trusted").write_bytes(both)
    in_file = {"ssl_truststore_location": str(tmp_path / "trusted"), "ssl_truststore_type": "PEM"}
    assert len(load_trusted(settings(**in_file))) == 2
    assert len(load_trusted(settings(ssl_truststore_type="PEM", ssl_truststore_certificates=both.decode()))) == 2
    assert load_trusted(settings()) == ()


SM2_KEY = (
    b"-----BEGIN PRIVATE KEY-----\n"
    b"MIGHAgEAMBMGByqGSM49AgEGCCqBHM9VAYItBG0wawIBAQQgQYueDjLdCkM7P4ntAHXAN7iMS0b8wgYE7Y++Q2mMV/uhRANCAASX"
    b"cDBP7IHAWCaPZ/MjIzG5ZHA+H4y7M+ZMB3r7k/bbPwJIT38uv8mrnsWRR72USN0W2jq46nlDH+oQQtLQwvVi"
    b"\n-----END PRIVATE KEY-----\n"
)
"""Of a curve that cryptography does not know."""


@pytest.mark.parametrize(
    ("content", "values", "complaint"),
    [
        (
            bytes.fromhex("cececece00000002"),
            {},
            "keytool -importkeystore -srckeystore .*store -destkeystore .*store.p12",
        ),
        (JKS[:20], {}, "is cut off: expected the right .*ssl.keystore.password"),
        (JKS[:-1], {"ssl_keystore_password": "store-secret"}, "is cut off: expected the right ssl.keystore.password"),
        (JKS, {"ssl_keystore_password": "wrong"}, "cannot be opened: expected the right ssl.keystore.password"),
        (
            JKS,
            {"ssl_keystore_password": "store-secret"},
            "the private key cannot be opened: expected the right .*key.pass",
        ),
        (bytes.fromhex("feedfeed0000000300000000"), {}, "has version 3, expected 1 or 2"),
        (bytes.fromhex("feedfeed0000000200000000"), {}, "expected a private key with its certificate"),
        (b"nonsense", {"ssl_keystore_type": "PEM"}, "expected PEM, which begins with"),
        (PAIR.pem, {"ssl_keystore_type": "PKCS12"}, "is a PEM file: set ssl.keystore.type=PEM"),
        (PAIR.pem, {}, "is a PEM file: set .*ssl.keystore.type=PEM"),
        (b"nonsense", {"ssl_keystore_type": "PKCS12"}, "cannot be opened: expected .*password to be set"),
        (PAIR.pkcs12(PASSWORD), {"ssl_keystore_password": "wrong"}, "expected the right ssl.keystore.password"),
        (encrypted(PAIR.key) + PAIR.chain, {"ssl_keystore_type": "PEM"}, "expected ssl.key.password to be set"),
        (
            encrypted(PAIR.key) + PAIR.chain,
            {"ssl_keystore_type": "PEM", "ssl_key_password": "wrong"},
            "the right ssl.key.password",
        ),
        (PAIR.key, {"ssl_keystore_type": "PEM"}, "expected at least one certificate"),
        (PAIR.chain, {"ssl_keystore_type": "PEM"}, "expected a private key"),
        (SM2_KEY + PAIR.chain, {"ssl_keystore_type": "PEM"}, "expected a private key"),
        (PAIR.key + pair(CA_).chain, {"ssl_keystore_type": "PEM"}, "expected the certificate of the private key"),
    ],
)
def test_a_bad_store_is_told(tmp_path: Path, content: bytes, values: dict[str, str], complaint: str) -> None:
    with pytest.raises(SecurityError, match=complaint) as caught:
        load_key(stored(tmp_path, content, **values))
    assert PASSWORD not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(SecurityError, match=r"ssl.keystore.location = '/no/such': the file cannot be read"):
        load_key(settings(ssl_keystore_location="/no/such"))


def test_keys_are_not_shown(tmp_path: Path) -> None:
    material = load_key(stored(tmp_path, PAIR.pem, ssl_keystore_type="PEM"))
    assert "PRIVATE" not in repr(material)


# -- contexts


def context(tmp_path: Path, **values: str) -> ssl.SSLContext:
    found = stored(tmp_path, PAIR.pem, ssl_keystore_type="PEM", **values)
    material = load_key(found)
    assert material is not None
    return server_context(found, material)


def test_versions_and_suites(tmp_path: Path) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    newest = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    default = context(tmp_path)
    assert (default.minimum_version, default.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    only_old = context(tmp_path, ssl_cipher_suites=suite)
    assert only_old.maximum_version == ssl.TLSVersion.TLSv1_2
    assert [one["name"] for one in only_old.get_ciphers() if one["protocol"] == "TLSv1.2"] == [
        "ECDHE-ECDSA-AES256-GCM-SHA384"
    ]
    assert context(tmp_path, ssl_cipher_suites=newest).minimum_version == ssl.TLSVersion.TLSv1_3
    both = context(tmp_path, ssl_cipher_suites=f"{newest},{suite}")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, "all suites of TLSv1.3 or none"),
        ({"ssl_cipher_suites": "TLS_NO_SUCH_WITH_THING_SHA256"}, "expected suites that OpenSSL has"),
        (
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ssl_enabled_protocols": "TLSv1.3"},
            "expected a suite of one of ssl.enabled.protocols",
        ),
    ],
)
def test_suites_that_cannot_be_had(tmp_path: Path, values: dict[str, str], complaint: str) -> None:
    with pytest.raises(SecurityError, match=complaint):
        context(tmp_path, **values)


def test_a_client_looks_at_names_unless_told_otherwise() -> None:
    assert client_context(settings()).check_hostname
    assert not client_context(settings(ssl_endpoint_identification_algorithm="")).check_hostname
