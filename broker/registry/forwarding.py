"""Requests that go to the node that leads the topic: over Kafka's listener for brokers, with its TLS and its login.

They are requests of our own (`protocol.api.table.OWN_TABLE`), so the nodes need not know each other's HTTP ports. Only
brokers may send them (CLUSTER_ACTION). The user goes with the request: what is asked of the ACLs is asked where it is
answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.network.request import Principal
from broker.peers.call import PeerError, entity_call
from broker.registry.calls import Answer, Asked
from broker.registry.errors import Code, RegistryError
from broker.registry.reads import RawText
from broker.registry.records import packed
from broker.registry.registry import failed
from broker.registry.rights import Rights
from broker.registry.users import rights_of
from odradek.schemas.json_text import json_of
from protocol.api.table import API_BY_NAME
from protocol.durations import ZERO
from protocol.errors import InvalidRequest

if TYPE_CHECKING:
    from broker.node import Node
    from broker.registry.registry import Registry
    from broker.request_context import RequestContext
    from protocol.newer.registry import AskRegistryRequest, AskRegistryResponse

TIMEOUT_MS = 20_000


class Forwarding:
    """Sends requests to other nodes, and answers theirs."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._registry: Registry | None = None

    def begin(self, registry: Registry) -> None:
        """Answer the requests of other nodes from now on."""
        self._registry = registry
        self._node.dispatcher.serve(API_BY_NAME["ask_registry"], self.handle)

    async def send(self, node_id: int, asked: Asked, rights: Rights) -> Answer:
        """The answer of another node."""
        from protocol.newer.registry import AskRegistryRequest

        peer = self._node.cluster.peers.reach(node_id)
        if peer is None:
            return failed(RegistryError(Code.NO_LEADER, f"Node {node_id}, which leads, cannot be reached now"))
        request = AskRegistryRequest(principal=rights.principal, host=rights.host, asked=packed(asked))
        try:
            answer = await peer.send(entity_call(request), TIMEOUT_MS)
        except PeerError as error:
            return failed(
                RegistryError(
                    Code.FORWARDING_FAILED,
                    f"Node {node_id} leads and does not answer: {error}. Has it a schema registry, too?",
                )
            )
        if answer.error_code is not ErrorCode.none:
            return failed(RegistryError(Code.FORWARDING_FAILED, f"Node {node_id}: {answer.error_message}"))
        value: Any = json_of(answer.value)
        return Answer(answer.status, RawText(value) if answer.is_raw else value)

    async def handle(self, _ctx: RequestContext, request: AskRegistryRequest) -> AskRegistryResponse:
        from protocol.newer.registry import AskRegistryResponse

        assert self._registry is not None
        try:
            method, target, body = json_of(request.asked)
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"no request to a schema registry: {error}") from error
        rights = Rights()
        if request.principal:
            kind, _, name = request.principal.partition(":")
            rights = rights_of(self._node, Principal(kind, name), request.host)
        answer = await self._registry.answer(Asked(str(method), str(target), body), rights, forwarded=True)
        return AskRegistryResponse(
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            error_message=None,
            status=answer.status,
            is_raw=isinstance(answer.value, RawText),
            value=packed(answer.value),
        )
