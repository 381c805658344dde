"""OpenSSL's contexts of a listener's settings: one for connections that come in, one for connections to other nodes.

Blocking, any thread.
"""

from __future__ import annotations

import os
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

from broker.config.listener_settings import ListenerSettings
from broker.security.errors import SecurityError
from broker.security.tls.ciphers import split_suites
from broker.security.tls.stores import KeyMaterial, load_key, load_trusted

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: ListenerSettings, key: KeyMaterial) -> ssl.SSLContext:
    """The context for clients of the listener. Raises SecurityError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_versions_and_suites(context, settings)
    _use_key(context, settings.found("ssl.keystore.location"), key)
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
        _use_key(context, settings.found("ssl.keystore.location"), key)
    return context


def _set_versions_and_suites(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    versions = {_VERSIONS[name] for name in settings.list_("ssl.enabled.protocols")}
    suites = settings.list_("ssl.cipher.suites")
    if suites:
        name = settings.found("ssl.cipher.suites")
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
