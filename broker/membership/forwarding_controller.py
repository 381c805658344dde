"""The controllers of the cluster as what decides on changes: clients' requests are sent on in an Envelope (KIP-590).

The request goes as it came, with its header, and with the client's principal and address; the controller answers as if
it had come from the client. What the node asks by itself is sent without an Envelope.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from broker.membership.controller_channel import ControllerChannel
from broker.membership.controller_port import ClientPrincipal, RawRequest
from broker.peers.call import Call, PeerError, PeerVersionError, entity_call
from controller.decision import Decision, Surroundings
from metadata.image import MetadataImage
from protocol.api.messages import request_class, response_class
from protocol.errors import KafkaError, Timeout, UnknownServerError, UnsupportedVersion, type_by_code
from protocol.primitives import INT32, DecodeError
from protocol.schema import Entity

R = TypeVar("R")

FORWARDING_TIMEOUT_MS = 60_000
"""How long a change may take, failovers included (`BrokerServer`'s channel for forwarding)."""

_PRINCIPAL_VERSION = Struct(">h").pack(0)


class ForwardingController:
    """See above. `around` is for callers that need it besides decisions; no decision is made here."""

    is_elsewhere = True

    def __init__(self, channel: ControllerChannel, around: Surroundings) -> None:
        self.around = around
        self._channel = channel

    async def submit(
        self,
        decide: Callable[[MetadataImage], Decision[R]],
        request: Entity | None = None,
    ) -> R:
        """See `Controller.submit`; the controller makes the decision, and `decide` is not called.

        Raises Timeout if no controller answers, UnsupportedVersion if it does not serve the request.
        """
        response: R = await self.ask(request)
        return response

    def close(self) -> None:
        """Ask no more; what is in flight or waits fails."""
        self._channel.close()

    async def ask(self, request: Entity) -> Any:
        """The active controller's answer to what this node asks by itself. Raises Timeout, UnsupportedVersion."""
        try:
            return await self._channel.send(entity_call(request, lowest=0), FORWARDING_TIMEOUT_MS)
        except PeerVersionError as error:
            raise UnsupportedVersion(str(error)) from error
        except PeerError as error:
            raise Timeout(str(error)) from error

    async def forward(self, asked: RawRequest, request: Entity | None = None) -> Any:
        """See `Controller.forward`. Raises Timeout, UnsupportedVersion, and what the controller refuses it with."""
        from kio.schema.envelope.v0 import EnvelopeRequest

        embedded = _embedded(asked, request)
        client_id = None if asked.client_id is None else asked.client_id.encode()
        envelope = EnvelopeRequest(
            request_data=bytes(embedded.frame(asked.version, asked.correlation_id, client_id)[INT32.size :]),
            request_principal=_principal(asked.connection.principal),
            client_host_address=_address(asked.connection.client_host),
        )
        answer = await self.ask(envelope)
        if answer.error_code is not ErrorCode.none:
            raise _refused(answer.error_code)
        try:
            return embedded.read(answer.response_data, asked.version)
        except DecodeError as error:
            raise UnknownServerError(f"The controller's answer cannot be read: {error}") from error


def _embedded(asked: RawRequest, request: Entity | None) -> Call[Any]:
    """The client's request in its own version, with the body that it came with, or with another request in it."""
    key, version = asked.api_key, asked.version
    cls = request_class(key, version)

    def encode(out: bytearray, _version: int) -> None:
        if request is None:
            out += asked.body
            return
        from protocol.writer import entity_writer

        entity_writer(cls, request.__class__)(out, request)

    def decode(frame: bytes, position: int, _version: int) -> Any:
        from protocol.reader import entity_reader

        answered = response_class(key, version)
        response, _ = entity_reader(answered, answered)(frame, position)
        return response

    return Call(key, version, version, lambda _: bool(cls.__flexible__), encode, decode)


def _principal(principal: ClientPrincipal) -> bytes:
    """Kafka's DefaultKafkaPrincipalBuilder.serialize."""
    from kio.schema.default_principal_data.v0 import DefaultPrincipalData

    from protocol.writer import entity_writer

    out = bytearray(_PRINCIPAL_VERSION)
    data = DefaultPrincipalData(
        type_=principal.type, name=principal.name, token_authenticated=principal.token_authenticated
    )
    entity_writer(DefaultPrincipalData, DefaultPrincipalData)(out, data)
    return bytes(out)


def _address(host: str) -> bytes:
    """The client's address, 4 or 16 bytes."""
    return ipaddress.ip_address(host.partition("%")[0]).packed


def _refused(code: ErrorCode) -> KafkaError:
    if code is ErrorCode.unsupported_version:
        return UnsupportedVersion("The controller does not serve this request in this version.")
    return type_by_code[code]()
