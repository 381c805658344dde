"""Distinguished names as Java prints them (`X500Principal.getName`, RFC 2253): principals are named by them."""

from __future__ import annotations

import warnings
from typing import Any

from cryptography.x509 import Certificate, Name, NameAttribute, RelativeDistinguishedName

MOST_CHARACTERS = 4096
"""The longest name of a client: a rule of `ssl.principal.mapping.rules` may take long for long names."""

warnings.filterwarnings("ignore", "Attribute's length must be", UserWarning, "broker")  # Java and Kafka take any

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = ',=+<>#;"\\'


def subject_of(certificate: Certificate) -> str:
    """The name of the certificate's subject, the most particular part first."""
    return rfc2253(certificate.subject)


def rfc2253(name: Name) -> str:
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(name.rdns))


def _attribute(attribute: NameAttribute[Any]) -> str:
    oid = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(oid)
    if keyword is None or not isinstance(attribute.value, str):
        return f"{oid}=#{_der(attribute).hex()}"
    return f"{keyword}={_escaped(attribute.value)}"


def _escaped(value: str) -> str:
    inner = value.strip(" ")
    leading = len(value) - len(value.lstrip(" "))
    trailing = len(value) - leading - len(inner)
    text = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in inner)
    return "\\ " * leading + text + "\\ " * trailing


def _der(attribute: NameAttribute[Any]) -> bytes:
    """The attribute's value in DER, with its tag: what follows the type in a name that has nothing else."""
    rest = Name([RelativeDistinguishedName([attribute])]).public_bytes()
    for _ in range(3):  # the name, its only part, and that part's only attribute
        rest = rest[_content_at(rest) :]
    size_of_type = rest[1]
    return rest[2 + size_of_type :]


def _content_at(der: bytes) -> int:
    """Where the content of an element begins, behind its tag and its length."""
    return 2 + (der[1] & 0x7F if der[1] & 0x80 else 0)
