"""What a controller decides for the other nodes of its cluster, on its own listener.

- BrokerRegistration 4 (KIP-631, KIP-858, KIP-966), BrokerHeartbeat 0-2 (KIP-631, KIP-841, KIP-858, KIP-1066)
- AlterPartition 3 (KIP-497, KIP-841, KIP-903), AssignReplicasToDirs 0 (KIP-858), AllocateProducerIds 0 (KIP-730)
- Envelope 0 (KIP-590): a client's request that a broker sends on, with the client's principal. The answer carries the
  whole answer to the request inside, errors included. The envelope's own error says why there is no answer: the
  principal cannot be read, or the request inside may not be sent on.
"""

from __future__ import annotations

from ipaddress import ip_address

from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse
from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kio.schema.broker_registration.v4 import BrokerRegistrationRequest, BrokerRegistrationResponse
from kio.schema.default_principal_data.v0 import DefaultPrincipalData
from kio.schema.envelope.v0 import EnvelopeRequest, EnvelopeResponse
from kio.schema.errors import ErrorCode

from broker.membership.controller_service import ControllerService
from broker.network.inner_client import InnerClient
from broker.network.request import CloseConnectionError, Peer, Principal
from broker.request_context import RequestContext
from controller.alter_partition import decide as decide_partition
from controller.assign_replicas import decide as decide_directories
from controller.producer_ids import decide_for_broker
from protocol import headers
from protocol.api.table import API_BY_KEY, API_TABLE
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, PrincipalDeserialization
from protocol.primitives import INT16, DecodeError
from protocol.reader import entity_reader


def service_of(ctx: RequestContext) -> ControllerService:
    service = ctx.cluster.controller_service
    assert service is not None, "a node without it has no controller's listener"
    return service


async def broker_registration(ctx: RequestContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    epoch = await service_of(ctx).register(request)
    return BrokerRegistrationResponse(throttle_time=ZERO, error_code=ErrorCode.none, broker_epoch=epoch)


async def broker_heartbeat(ctx: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    reply = await service_of(ctx).heartbeat(request)
    return BrokerHeartbeatResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )


async def alter_partition(ctx: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    controller = ctx.controller
    return await controller.submit(lambda image: decide_partition(image, request, controller.around.schema))


async def assign_replicas_to_dirs(
    ctx: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    controller = ctx.controller
    return await controller.submit(lambda image: decide_directories(image, request, controller.around.schema))


async def allocate_producer_ids(
    ctx: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    ids = await ctx.controller.submit(lambda image: decide_for_broker(image, request.broker_id, request.broker_epoch))
    return AllocateProducerIdsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, producer_id_start=ids.start, producer_id_len=len(ids)
    )


FORWARDABLE = frozenset(api.key for api in API_TABLE if api.place == "decides")
"""What clients ask of brokers, and controllers decide."""


async def envelope(ctx: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Raises PrincipalDeserialization and InvalidRequest."""
    client = _client(ctx.connection, request)
    frame = memoryview(request.request_data)
    try:
        header = headers.parse_request_header(frame)
    except DecodeError as error:
        raise InvalidRequest(f"The request in the envelope has no header: {error}") from error
    client.client_id, api = header.client_id, API_BY_KEY[header.api_key]
    if api.key not in FORWARDABLE:
        raise InvalidRequest(f"{api.name} cannot come in an envelope.")
    try:
        reply = await service_of(ctx).answer(client, frame)
    except CloseConnectionError as error:
        raise InvalidRequest(f"The request in the envelope cannot be answered: {error}") from error
    parts = reply if isinstance(reply, list) else [reply]
    return EnvelopeResponse(response_data=b"".join(parts)[4:], error_code=ErrorCode.none)


def _client(connection: Peer, request: EnvelopeRequest) -> InnerClient:
    host = _host(request.client_host_address)
    return InnerClient(connection.listener_name, _principal(request.request_principal), host, host)


def _host(address: bytes) -> str:
    try:
        return str(ip_address(address))
    except ValueError as error:
        raise InvalidRequest(f"A client's address has 4 or 16 bytes, not {len(address)}.") from error


def _principal(data: bytes | None) -> Principal:
    """The client's principal (Kafka's `DefaultKafkaPrincipalBuilder`)."""
    if data is None or len(data) < INT16.size or INT16.unpack_from(data)[0] != 0:
        raise PrincipalDeserialization
    try:
        principal, _ = entity_reader(DefaultPrincipalData, DefaultPrincipalData)(data, INT16.size)
    except DecodeError as error:
        raise PrincipalDeserialization from error
    return Principal(principal.type_, principal.name, principal.token_authenticated)
