"""Sessions that end, and re-authentication (KIP-368)."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.authentication.conversations_handshake import ALICE, METADATA, shake, works
from tests.conformance.authentication.conversations_mechanisms import bearer, unsigned
from tests.conformance.authentication.settings import REAUTH_MS
from tests.conformance.authentication.talk import Talk, conversation
from tests.conformance.wire import Wire

PAUSE_S = 1.1
"""Longer than the time within which a client may not authenticate again."""
OVER_S = REAUTH_MS / 1000 + 0.4


def known(t: Talk, step: str, version: int = 2) -> Wire:
    wire = t.connect("AGAIN")
    assert isinstance(wire.call("sasl_handshake", 1, {"mechanism": "PLAIN"}), dict)
    t.call(step, wire, "sasl_authenticate", version, auth_bytes=ALICE)
    return wire


def again(t: Talk, step: str, wire: Wire, token: bytes = ALICE, mechanism: str = "PLAIN") -> None:
    shake(t, wire, mechanism, step=f"{step}: handshake")
    t.call(f"{step}: token", wire, "sasl_authenticate", 2, auth_bytes=token)
    works(t, wire, f"{step}: another request")


@conversation
def again_in_time(t: Talk) -> None:
    wire = known(t, "known")
    again(t, "at once", wire)
    shake(t, wire, step="within a second")
    works(t, wire, "open after that")
    time.sleep(PAUSE_S)
    again(t, "later", wire)


@conversation
def after_the_end(t: Talk) -> None:
    waiting = {version: known(t, f"known by v{version}", version) for version in (0, 1, 2)}
    late, idle = known(t, "known, and late"), known(t, "known, and idle")
    bare = t.connect("AGAIN")
    shake(t, bare, version=0, step="handshake v0")
    t.bare("a bare token", bare, ALICE)
    time.sleep(OVER_S)
    for version, wire in waiting.items():
        works(t, wire, f"v{version} after the end")
    works(t, bare, "bare tokens after the end")
    again(t, "after the end", late)
    t.keep("idle after the end", idle.receive(0.5))


@conversation
def again_as_another(t: Talk) -> None:
    again(t, "another user", known(t, "known"), "\0Ünï\0pässword".encode())
    again(t, "a wrong password", known(t, "known again"), b"\0alice\0wrong")
    again(t, "another mechanism", known(t, "known once more"), b"n,,n=bob,r=abc", "SCRAM-SHA-256")
    wire = known(t, "known at last")
    shake(t, wire, "GSSAPI", step="a mechanism that is not enabled")
    works(t, wire, "after that")


@conversation
def other_requests_while_again(t: Talk) -> None:
    wire = known(t, "known")
    shake(t, wire)
    t.call("metadata", wire, "metadata", 12, **METADATA)
    wire = known(t, "known again")
    t.call("a token without a handshake", wire, "sasl_authenticate", 2, auth_bytes=ALICE)
    works(t, wire)


@conversation
def tokens_end_where_sessions_do_not(t: Talk) -> None:
    now = int(time.time())
    claims: dict[str, Any] = {"sub": "olga", "iat": now, "exp": now + 3}
    wire = t.connect()
    shake(t, wire, "OAUTHBEARER")
    answer = wire.call("sasl_authenticate", 2, {"auth_bytes": bearer(unsigned(claims))})
    t.keep("lifetime", isinstance(answer, dict) and 0 < answer["session_lifetime"] <= 3000)
    again(t, "with a longer one", wire, bearer(unsigned(claims | {"exp": now + 4})), "OAUTHBEARER")
    time.sleep(4.2)
    works(t, wire, "after its end")
