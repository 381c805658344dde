"""Certificates made in memory, by `trustme`: brokers' and clients', good ones and bad ones."""

from __future__ import annotations

import datetime
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID
from trustme import CA

BROKER = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
HOSTS = ("localhost", "127.0.0.1")
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A private key (PKCS#8, which is what Kafka reads) and its certificate chain, as PEM."""

    key: bytes
    chain: bytes

    @property
    def pem(self) -> bytes:
        return self.key + self.chain

    def pkcs12(self, password: str) -> bytes:
        """The same as a PKCS12 store, as keytool makes it."""
        key = load_pem_private_key(self.key, None)
        own, *others = x509.load_pem_x509_certificates(self.chain)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return pkcs12.serialize_key_and_certificates(
            b"broker", key, own, others, BestAvailableEncryption(password.encode())
        )


def pair(ca: CA, *hosts: str) -> Pair:
    """A broker's certificate, for hosts."""
    return pair_of(ca, BROKER, hosts=hosts or HOSTS)


def pair_of(ca: CA, subject: x509.Name, *, hosts: Sequence[str] = (), expired: bool = False) -> Pair:
    """A certificate of any name; trustme's own have a part that is random."""
    authority = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    signer = load_pem_private_key(ca.private_key_pem.bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * DAY)
        .not_valid_after(now - DAY if expired else now + DAY)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(private, certificate.public_bytes(Encoding.PEM))


def renamed(ca: CA, of: Pair, subject: bytes) -> Pair:
    """The same key and certificate with another subject (DER), which may be any bytes, signed anew."""
    signer = load_pem_private_key(ca.private_key_pem.bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate(of.chain)
    signed = certificate.tbs_certificate_bytes
    content = signed[len(signed) - _content_bytes(signed) :].replace(certificate.subject.public_bytes(), subject)
    signed = element(0x30, content)
    signature = element(0x03, b"\0" + signer.sign(signed, ec.ECDSA(hashes.SHA256())))
    ecdsa_with_sha256 = bytes.fromhex("300a06082a8648ce3d040302")
    return Pair(of.key, ssl.DER_cert_to_PEM_cert(element(0x30, signed + ecdsa_with_sha256 + signature)).encode())


def element(tag: int, content: bytes) -> bytes:
    """An element of DER."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _content_bytes(der: bytes) -> int:
    """The length of the content of an element."""
    return int.from_bytes(der[2 : 2 + (der[1] & 0x7F)], "big") if der[1] & 0x80 else der[1]


def _host(host: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)


def trusting(ca: CA, own: Pair | None = None) -> ssl.SSLContext:
    """A client's context, perhaps with a certificate of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=ca.cert_pem.bytes().decode())
    if own is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(own.pem)
            file.flush()
            context.load_cert_chain(file.name)
    return context
