"""TLS: who may come in, and as whom."""

from __future__ import annotations

import ssl
from typing import Any

from tests.certificates import trusting
from tests.conformance.authentication.conversations_handshake import ALICE, METADATA, works
from tests.conformance.authentication.talk import Talk, conversation
from tests.conformance.wire import Wire

TOKEN: dict[str, Any] = {
    "owner_principal_type": None,
    "owner_principal_name": None,
    "renewers": [],
    "max_lifetime": -1,
}


def comes_as(t: Talk, step: str, wire: Wire | None) -> None:
    """Keep the principal, which the answer to a request for a token names, even if there is no token."""
    if wire is None:
        return
    answer = wire.call("create_delegation_token", 3, TOKEN)
    if isinstance(answer, dict):
        kind, name = answer["token_requester_principal_type"], answer["token_requester_principal_name"]
        t.keep(step, f"{kind}:{name}")
    else:
        t.keep(step, answer)


@conversation
def certificates_that_are_welcome(t: Talk) -> None:
    comes_as(t, "nobody", t.connect_tls("nobody", "TLS"))
    for name in t.certificates.clients:
        comes_as(t, name, t.connect_tls(name, "TLS", name))


@conversation
def certificates_that_are_needed(t: Talk) -> None:
    comes_as(t, "nobody", t.connect_tls("nobody", "MUTUAL"))
    for name in t.certificates.clients:
        comes_as(t, name, t.connect_tls(name, "MUTUAL", name))


@conversation
def versions_of_tls(t: Talk) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = trusting(t.certificates.ca)
        context.minimum_version = context.maximum_version = version
        wire = t.connect_tls(version.name, "TLS", context=context)
        t.keep(f"spoken for {version.name}", wire and wire.version)


@conversation
def sasl_through_tls(t: Talk) -> None:
    wire = t.connect_tls("handshake", "BOTH")
    assert wire is not None
    t.call("metadata before", wire, "metadata", 12, **METADATA)
    wire = t.connect_tls("handshake again", "BOTH")
    assert wire is not None
    t.call("SASL", wire, "sasl_handshake", 1, mechanism="PLAIN")
    t.call("tokens", wire, "sasl_authenticate", 2, auth_bytes=ALICE)
    comes_as(t, "as", wire)
    works(t, wire)


@conversation
def the_other_protocol(t: Talk) -> None:
    t.call("plaintext to TLS", t.connect("TLS"), "metadata", 12, **METADATA)
    t.connect_tls("TLS to plaintext", "PLAINTEXT")
    t.connect_tls("TLS to SASL", "SASL")
