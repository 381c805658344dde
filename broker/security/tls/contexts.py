"""OpenSSL's contexts of a listener's settings: one for connections that come in, one for connections to other nodes.

Cipher suites have their IANA names in settings, as in Java. A certificate may replace another while the broker runs if
clients find the same names in it (`SslFactory.CertificateEntries`). Blocking, any thread.
"""

from __future__ import annotations

import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import Certificate, ExtensionNotFound, SubjectAlternativeName

from broker.config.listener_settings import ListenerSettings
from broker.security.sources import SecurityError
from broker.security.tls.principal_mapping import subject_of
from broker.security.tls.stores import KeyMaterial, load_key, load_trusted, readable

TLS13_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLSv1.3 that OpenSSL has on; Python's `ssl` cannot choose among them."""

_IANA = r"TLS_(?:(.+)_)?WITH_(.+)_(SHA\d*|CCM|CCM_8)"
_CIPHERS = {"3DES_EDE_CBC": "DES-CBC3"}

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


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


def server_context(settings: ListenerSettings, key: KeyMaterial) -> ssl.SSLContext:
    """The context for clients of the listener. Raises SecurityError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_versions_and_suites(context, settings)
    _use_key(context, settings.name_of("ssl.keystore.location"), key)
    _trust(context, load_trusted(settings))
    context.verify_mode = _CLIENT_AUTH[settings.text("ssl.client.auth") or "none"]
    return context


def client_context(settings: ListenerSettings) -> ssl.SSLContext:
    """The context for connections to other nodes' listeners of that name; it has this node's own certificate.

    Raises SecurityError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions_and_suites(context, settings)
    context.check_hostname = settings.text("ssl.endpoint.identification.algorithm") is not None
    trusted = load_trusted(settings)
    if trusted:
        _trust(context, trusted)
    else:
        context.set_default_verify_paths()
    key = load_key(settings)
    if key is not None:
        _use_key(context, settings.name_of("ssl.keystore.location"), key)
    return context


def _set_versions_and_suites(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    versions = {_VERSIONS[name] for name in settings.list_("ssl.enabled.protocols")}
    suites = settings.list_("ssl.cipher.suites")
    if suites:
        name = settings.name_of("ssl.cipher.suites")
        older, newest = split_suites(name, suites)
        versions -= {version for version, wanted in zip(_VERSIONS.values(), (older, newest), strict=True) if not wanted}
        if not versions:
            raise SecurityError(f"{name}: expected a suite of one of ssl.enabled.protocols")
        try:
            context.set_ciphers(older or "DEFAULT")
        except ssl.SSLError as error:
            raise SecurityError(f"{name}: expected suites that OpenSSL has, by their IANA names") from error
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _trust(context: ssl.SSLContext, certificates: tuple[x509.Certificate, ...]) -> None:
    """Trust these certificates; each of them ends a chain, even if another one has signed it, as in Java."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificates:
        context.load_verify_locations(
            cadata=b"".join(certificate.public_bytes(Encoding.DER) for certificate in certificates)
        )


def _use_key(context: ssl.SSLContext, where: str, material: KeyMaterial) -> None:
    """Hand the key to OpenSSL, which reads it only from a file: that file is encrypted, and gone at once."""
    password = secrets.token_hex(32)
    key = load_pem_private_key(material.key, None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    try:
        with _short_lived_file(encrypted + material.chain_pem) as name:
            context.load_cert_chain(name, password=password)
    except ssl.SSLError as error:
        raise SecurityError(f"{where}: OpenSSL does not take the key with its certificate: {error.reason}") from error


@contextmanager
def _short_lived_file(content: bytes) -> Iterator[str]:
    """The name of a file with `content`, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


def require_same_names(settings: ListenerSettings, old: Certificate, new: Certificate) -> None:
    """Raises SecurityError: clients that check whom they talk to would no longer find the name that they know."""
    where = settings.name_of("ssl.keystore.location")
    with readable(where):
        former, subject = subject_of(old), subject_of(new)
        missing = _alternative_names(old) - _alternative_names(new)
    if not settings.boolean("ssl.allow.dn.changes") and former != subject:
        raise SecurityError(
            f"{where}: expected a certificate of {former!r}, not {subject!r}; or ssl.allow.dn.changes=true"
        )
    if missing and not settings.boolean("ssl.allow.san.changes"):
        raise SecurityError(
            f"{where}: expected a certificate that has {', '.join(sorted(missing))} too; or ssl.allow.san.changes=true"
        )


def _alternative_names(certificate: Certificate) -> set[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    except ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}
