"""Before and around the tokens: what may be sent when, and what else is answered."""

from __future__ import annotations

import struct
from typing import Any

from tests.conformance.authentication.talk import Talk, conversation
from tests.conformance.wire import Wire

ALICE = b"\0alice\0alice-secret"
VERSIONS: dict[str, Any] = {"client_software_name": "judge", "client_software_version": "1"}
METADATA: dict[str, Any] = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


def shake(t: Talk, wire: Wire, mechanism: str = "PLAIN", version: int = 1, step: str = "handshake") -> None:
    t.call(step, wire, "sasl_handshake", version, mechanism=mechanism)


def works(t: Talk, wire: Wire, step: str = "another request") -> None:
    answer = wire.call("metadata", 12, METADATA)
    t.keep(step, "answered" if isinstance(answer, dict) else answer)


@conversation
def in_the_usual_order(t: Talk) -> None:
    wire = t.connect()
    t.call("versions", wire, "api_versions", 3, **VERSIONS)
    shake(t, wire)
    t.call("tokens", wire, "sasl_authenticate", 2, auth_bytes=ALICE)
    works(t, wire)
    shake(t, wire, step="a late handshake")
    t.call("a late token", wire, "sasl_authenticate", 2, auth_bytes=ALICE)
    works(t, wire, "still open")


@conversation
def every_version_of_tokens(t: Talk) -> None:
    for version in (0, 1, 2):
        wire = t.connect()
        shake(t, wire, step=f"handshake before v{version}")
        t.call(f"tokens v{version}", wire, "sasl_authenticate", version, auth_bytes=ALICE)
        wire = t.connect()
        shake(t, wire, step=f"handshake before a wrong v{version}")
        t.call(f"a wrong token v{version}", wire, "sasl_authenticate", version, auth_bytes=b"\0alice\0wrong")
        works(t, wire, f"after a wrong v{version}")


@conversation
def bare_tokens(t: Talk) -> None:
    wire = t.connect()
    shake(t, wire, version=0)
    t.bare("token", wire, ALICE)
    works(t, wire)
    shake(t, wire, version=0, step="a late handshake")
    works(t, wire, "still open")
    wire = t.connect()
    shake(t, wire, version=0, step="handshake again")
    t.bare("a wrong token", wire, b"\0alice\0wrong")
    wire = t.connect()
    shake(t, wire, version=0, step="handshake once more")
    t.call("a request in place of a token", wire, "metadata", 12, **METADATA)


@conversation
def versions_more_than_once(t: Talk) -> None:
    wire = t.connect()
    t.call("one", wire, "api_versions", 3, **VERSIONS)
    t.call("two", wire, "api_versions", 3, **VERSIONS)


@conversation
def versions_that_are_refused_may_be_asked_again(t: Talk) -> None:
    wire = t.connect()
    t.raw("too new", wire, struct.pack(">hhih", 18, 99, 1, -1) + b"\0\x06judge\x021\0")
    t.call("a bad name", wire, "api_versions", 3, **VERSIONS | {"client_software_name": "!"})
    t.call("a good one", wire, "api_versions", 3, **VERSIONS)
    shake(t, wire)


@conversation
def other_requests_before_the_handshake(t: Talk) -> None:
    t.call("metadata", t.connect(), "metadata", 12, **METADATA)
    t.call("tokens", t.connect(), "sasl_authenticate", 2, auth_bytes=ALICE)
    wire = t.connect()
    t.call("versions", wire, "api_versions", 3, **VERSIONS)
    t.call("metadata after versions", wire, "metadata", 12, **METADATA)
    t.raw("an unknown key", t.connect(), struct.pack(">hhih", 999, 0, 1, -1))
    t.raw("an unknown version", t.connect(), struct.pack(">hhih", 17, 99, 1, -1) + b"\0\5PLAIN")
    t.raw("two bytes", t.connect(), b"\0\x11")
    t.raw("nothing", t.connect(), b"")
    t.raw("a bare token", t.connect(), ALICE)
    wire = t.connect()
    wire.send_bytes(struct.pack(">i", -5))
    t.keep("a negative size", wire.receive())
    wire = t.connect()
    wire.send_bytes(struct.pack(">i", 524_289))
    t.keep("a large size", wire.receive())


@conversation
def mechanisms_that_are_not_enabled(t: Talk) -> None:
    for name in ("GSSAPI", "plain", ""):
        for version in (0, 1):
            wire = t.connect()
            shake(t, wire, name, version, f"{name!r} v{version}")
            works(t, wire, f"after {name!r} v{version}")


@conversation
def other_requests_among_the_tokens(t: Talk) -> None:
    others: dict[str, tuple[int, dict[str, Any]]] = {
        "sasl_handshake": (1, {"mechanism": "PLAIN"}),
        "metadata": (12, METADATA),
        "heartbeat": (4, {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}),
        "list_groups": (4, {"states_filter": []}),
    }
    for api, (version, body) in others.items():
        wire = t.connect()
        shake(t, wire, step=f"handshake before {api}")
        t.call(api, wire, api, version, **body)
        works(t, wire, f"after {api}")


@conversation
def tokens_out_of_bounds(t: Talk) -> None:
    wire = t.connect()
    shake(t, wire)
    t.call("an empty one", wire, "sasl_authenticate", 1, auth_bytes=b"")
    wire = t.connect()
    shake(t, wire, step="handshake before none")
    t.raw("none", wire, struct.pack(">hhihi", 36, 1, 7, -1, -1))
    wire = t.connect()
    shake(t, wire, step="handshake before a large one")
    t.call("a large one", wire, "sasl_authenticate", 1, auth_bytes=b"\0alice\0" + b"x" * 500_000)
    wire = t.connect()
    shake(t, wire, step="handshake before a larger one")
    wire.send_bytes(struct.pack(">i", 524_289))
    t.keep("a larger one", wire.receive())
