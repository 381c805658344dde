"""Targets of the protocol: headers, request bodies, the consumer protocol, SASL messages, record batches."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from broker.network.request import USER, CloseConnectionError, Principal
from broker.observe.client_telemetry import pushed
from broker.security.sasl.conversations import (
    AuthenticationError,
    Challenge,
    OAuthBearerConversation,
    PlainConversation,
    ScramConversation,
)
from broker.security.sasl.unsecured_tokens import UnsecuredTokens
from broker.security.sources import ScramCredential
from protocol import headers
from protocol.api.messages import decode_request, request_class
from protocol.api.row import Api
from protocol.api.table import API_BY_NAME, API_TABLE
from protocol.consumer_protocol import (
    SchemaError,
    deserialize_assignment,
    deserialize_subscription,
    serialize_assignment,
)
from protocol.errors import KafkaError
from protocol.otlp import MalformedMetricsError, decode_points
from protocol.primitives import DecodeError
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin, LogConfig
from storage.log.record_checks import LargeBatchError
from storage.log.validator import validate
from tests.conformance.authentication.conversations_mechanisms import unsigned
from tests.conformance.group_members import subscription
from tests.fuzzing.target import Target
from tests.unit.broker.wire import NOW, batch, entity_frame
from tests.unit.protocol.conftest import Generator
from tests.unit.protocol.otlp_messages import counted, gauge, metrics_data, point

SIZE = 4
CREDENTIAL = ScramCredential(b"salt", b"k" * 32, b"s" * 32, 4096, Principal(USER, "alice"))
PAIRS: tuple[tuple[Api, int], ...] = tuple(
    (api, version) for api in API_TABLE for version in range(api.lowest, api.highest + 1)
)
"""Every request and version; the first two bytes of an input say which."""


def request_body(data: bytes) -> object:
    api, version = PAIRS[int.from_bytes(data[:2], "big") % len(PAIRS)]
    return decode_request(api, version, data[2:])


def request_bodies() -> Iterator[bytes]:
    for number, (api, version) in enumerate(PAIRS):
        made = Generator((api.name, version)).entity(request_class(api.key, version))
        frame = memoryview(entity_frame(made, 1))[SIZE:]
        body = bytes(frame[headers.parse_request_header(frame)[4] :])
        if len(body) < 300:
            yield number.to_bytes(2, "big") + body


def request_headers() -> Iterator[bytes]:
    for name in ("api_versions", "metadata", "produce"):
        yield entity_frame(Generator(name).entity(request_class(API_BY_NAME[name].key, API_BY_NAME[name].lowest)), 1)[
            4:
        ]


def metrics_of_clients(data: bytes) -> object:
    return [pushed(point) for point in decode_points(data)]


def pushes() -> Iterable[bytes]:
    yield metrics_data(gauge("a.rate", point(0.5, {"node.id": "1", "yes": True})), counted("a.total", point(3)))


def members_metadata(data: bytes) -> object:
    """A subscription, and an assignment: both are read, whatever the first says."""
    try:
        deserialize_subscription(data)
    finally:
        assigned = deserialize_assignment(data)
    return assigned


def scram_final(data: bytes) -> object:
    """The second message of a client whose first was good."""
    conversation = ScramConversation("SCRAM-SHA-256", lambda *_: CREDENTIAL, random.Random(1))
    assert isinstance(conversation.evaluate(b"n,,n=alice,r=abc"), Challenge)
    return conversation.evaluate(data)


def scram_first(data: bytes) -> object:
    return ScramConversation("SCRAM-SHA-512", lambda *_: CREDENTIAL, random.Random(1)).evaluate(data)


def plain(data: bytes) -> object:
    return PlainConversation({"alice": "geheim"}).evaluate(data)


def oauthbearer(data: bytes) -> object:
    step: Any = OAuthBearerConversation(UnsecuredTokens({}, lambda: NOW).validate).evaluate(data)
    return finished(step) if isinstance(step, Coroutine) else step


def finished(work: Coroutine[Any, Any, object]) -> object:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def record_batch(data: bytes) -> object:
    return validate(memoryview(bytearray(data)), LogConfig(), AppendOrigin.CLIENT, NOW, "t-0")


def record_batches() -> Iterator[bytes]:
    for codec in Compression:
        yield bytes(batch(b"value" * 20, b"", b"x" * 300, compression=codec))


def said(*texts: str) -> Iterable[bytes]:
    return [text.encode() for text in texts]


TOKEN = unsigned({"sub": "olga", "iat": 0, "exp": NOW})
REFUSED = (AuthenticationError, CloseConnectionError)

MESSAGES = (
    Target(
        "request_headers", lambda data: headers.parse_request_header(memoryview(data)), (DecodeError,), request_headers
    ),
    Target("request_bodies", request_body, (DecodeError,), request_bodies),
    Target(
        "members_metadata",
        members_metadata,
        (SchemaError,),
        lambda: [subscription("a", "b"), serialize_assignment(1, [("a", [0, 1])])],
    ),
    Target("pushed_metrics", metrics_of_clients, (MalformedMetricsError,), pushes),
    Target("sasl_plain", plain, REFUSED, lambda: said("\0alice\0geheim", "bob\0alice\0geheim")),
    Target(
        "sasl_scram_first",
        scram_first,
        REFUSED,
        lambda: said("n,,n=alice,r=abc", "n,a=alice,n=alice,r=a,tokenauth=true"),
    ),
    Target(
        "sasl_scram_final", scram_final, REFUSED, lambda: said("c=biws,r=abc,p=YWJj", f"c=biws,r=abc,p={'A' * 43}=")
    ),
    Target("sasl_oauthbearer", oauthbearer, REFUSED, lambda: said(f"n,,\x01auth=Bearer {TOKEN}\x01\x01", "\x01")),
    Target("record_batches", record_batch, (KafkaError, LargeBatchError), record_batches),
)
