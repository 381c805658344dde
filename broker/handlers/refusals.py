"""The APIs that are always refused, each with the answer of a Kafka that lacks the same.

No listener speaks SASL, and delegation tokens need one that does (KIP-43, KIP-48, KIP-152). There is no authorizer, so
there are no ACLs (KIP-140). There are no share groups: `share.version` is 0, and no coordinator has the state of one
(KIP-932). The voters of the metadata do not change, since `kraft.version` is 0 (KIP-853), and the only broker stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import UUID

from broker.cluster.controller_port import decided_elsewhere
from broker.config.broker_config import split_list
from broker.network.request import CloseConnectionError
from broker.request_context import RequestContext
from protocol.api_table import API_BY_KEY
from protocol.errors import (
    BrokerIdNotRegistered,
    IllegalSaslState,
    InconsistentClusterId,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    SecurityDisabled,
    UnknownServerError,
    UnsupportedByAuthentication,
    UnsupportedVersion,
)
from protocol.messages import newest_response
from protocol.schema import EntityClass, default_entity, field_plans
from protocol.uuids import ZERO

Check = Callable[[RequestContext, Any], None]
"""Raises if a request gets another error than its API's."""

Shape = Callable[[RequestContext, Any, KafkaError], Any]
"""The response with the error in the places where the API's has one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The handler of an API, in the place of a module (see `broker.handlers`).

    Without an `error_response`, the error is at the top of the response. `is_change`: if other nodes are the
    controllers, they are asked, and may do what is refused here.
    """

    error: Callable[[], KafkaError]
    error_response: Shape | None = None
    check: Check | None = None
    is_change: bool = False

    def handle(self, ctx: RequestContext, request: Any) -> Awaitable[Any]:
        if self.is_change and ctx.controller.is_elsewhere:
            return ctx.controller.submit(decided_elsewhere, ctx)
        if self.check is not None:
            self.check(ctx, request)
        raise self.error()


# -- shapes of answers


def _response_class(ctx: RequestContext) -> EntityClass:
    return newest_response(API_BY_KEY[ctx.api_key])


def _item_class(parent: EntityClass, field: str) -> EntityClass:
    return next(plan.entity for plan in field_plans(parent) if plan.name == field)


def _without_message(ctx: RequestContext, _request: Any, error: KafkaError) -> Any:
    return default_entity(_response_class(ctx), error_code=error.code, error_message=error.explicit_message)


def _for_each(asked: str, answered: str, name_of: Callable[[Any], dict[str, Any]] = lambda _: {}) -> Shape:
    """The error once for each item of the request's field `asked`; `name_of` has the fields that identify the item."""

    def shape(ctx: RequestContext, request: Any, error: KafkaError) -> Any:
        response = _response_class(ctx)
        item = _item_class(response, answered)
        fields = {"error_code": error.code, "error_message": error.explicit_message}
        items = tuple(default_entity(item, **fields, **name_of(one)) for one in getattr(request, asked))
        return default_entity(response, **{answered: items})

    return shape


def _for_each_partition(
    ctx: RequestContext, request: Any, error: KafkaError, *, passes_over_empty_topics: bool = False
) -> Any:
    """The error for each partition of a share group. Nothing is answered without a group.

    Nor if a topic has no partitions, unless it is passed over.
    """
    response = _response_class(ctx)
    result = _item_class(response, "results")
    partition = _item_class(result, "partitions")
    topics: dict[Any, dict[int, Any]] = {}
    if request.group_id and (passes_over_empty_topics or all(topic.partitions for topic in request.topics)):
        for topic in request.topics:
            for one in topic.partitions:
                topics.setdefault(topic.topic_id or ZERO, {})[one.partition] = default_entity(
                    partition, partition=one.partition, error_code=error.code, error_message=error.message
                )
    results = [result(topic_id=topic, partitions=tuple(found.values())) for topic, found in topics.items()]
    return response(results=tuple(results))


def _no_token(ctx: RequestContext, request: Any, error: KafkaError) -> Any:
    requester = ctx.connection.principal
    owned = request.owner_principal_type is not None and request.owner_principal_name
    return default_entity(
        _response_class(ctx),
        error_code=error.code,
        principal_type=request.owner_principal_type if owned else requester.type,
        principal_name=request.owner_principal_name if owned else requester.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=-1,
        expiry_timestamp=-1,
        max_timestamp=-1,
    )


# -- checks that come first


def _check_owner(_ctx: RequestContext, request: Any) -> None:
    """Raises UnknownServerError, as Kafka does, for an owner with a name and no type."""
    if request.owner_principal_name and request.owner_principal_type is None:
        raise UnknownServerError


def _check_acls(acls_of: Callable[[Any], Iterable[Any]]) -> Check:
    """Raises CloseConnectionError for the number that means UNKNOWN, which Kafka does not read; it reads all others."""

    def check(_ctx: RequestContext, request: Any) -> None:
        for one in acls_of(request):
            acl: EntityClass = type(one)
            if 0 in [getattr(one, plan.name) for plan in field_plans(acl) if plan.kind == "int8"]:
                raise CloseConnectionError("an ACL or a filter of ACLs with an UNKNOWN element")

    return check


def _check_new_voter(ctx: RequestContext, request: Any) -> None:
    """Raises what `_check_voter` does, and InvalidRequest without an endpoint for controllers."""
    _check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Add")
    configured = split_list(ctx.local.config.optional_string("controller.listener.names") or "")
    default = configured[0].upper() if configured else "CONTROLLER"
    if default not in {listener.name.upper() for listener in request.listeners}:
        raise InvalidRequest(f"The request has no endpoint for the controller listener {default}.")
    _refuse_voters("adding")


def _check_leaving_voter(ctx: RequestContext, request: Any) -> None:
    _check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Remove")
    _refuse_voters("removing")


def _check_broker(ctx: RequestContext, request: Any) -> None:
    """Raises InvalidRequest for this broker. Deviation: Kafka unregisters even one that runs, and the only one."""
    if request.broker_id in ctx.image.cluster.brokers:
        raise InvalidRequest(f"Broker {request.broker_id} is the only one, and runs.")


_no_authorizer = partial(SecurityDisabled, "No authorizer is configured.")

REFUSALS: Mapping[str, Refusal] = MappingProxyType(
    {
        "sasl_handshake": Refusal(IllegalSaslState),
        "sasl_authenticate": Refusal(partial(IllegalSaslState, "This listener asks for no authentication.")),
        "create_delegation_token": Refusal(UnsupportedByAuthentication, _no_token, _check_owner, is_change=True),
        "renew_delegation_token": Refusal(UnsupportedByAuthentication, is_change=True),
        "expire_delegation_token": Refusal(UnsupportedByAuthentication, is_change=True),
        "describe_delegation_token": Refusal(UnsupportedByAuthentication),
        "describe_acls": Refusal(_no_authorizer, check=_check_acls(lambda request: (request,))),
        "create_acls": Refusal(
            _no_authorizer,
            _for_each("creations", "results"),
            _check_acls(lambda request: request.creations),
            is_change=True,
        ),
        "delete_acls": Refusal(
            _no_authorizer,
            _for_each("filters", "filter_results"),
            _check_acls(lambda request: request.filters),
            is_change=True,
        ),
        "share_group_heartbeat": Refusal(UnsupportedVersion, _without_message),
        "share_group_describe": Refusal(
            UnsupportedVersion, _for_each("group_ids", "groups", lambda group_id: {"group_id": group_id})
        ),
        "share_fetch": Refusal(UnsupportedVersion, _without_message),
        "share_acknowledge": Refusal(UnsupportedVersion, _without_message),
        "describe_share_group_offsets": Refusal(
            UnsupportedVersion, _for_each("groups", "groups", lambda group: {"group_id": group.group_id})
        ),
        "alter_share_group_offsets": Refusal(UnsupportedVersion),
        "delete_share_group_offsets": Refusal(UnsupportedVersion),
        "initialize_share_group_state": Refusal(
            NotCoordinator, partial(_for_each_partition, passes_over_empty_topics=True)
        ),
        "read_share_group_state": Refusal(NotCoordinator, _for_each_partition),
        "write_share_group_state": Refusal(NotCoordinator, _for_each_partition),
        "delete_share_group_state": Refusal(NotCoordinator, _for_each_partition),
        "read_share_group_state_summary": Refusal(NotCoordinator, _for_each_partition),
        "add_raft_voter": Refusal(UnsupportedVersion, check=_check_new_voter, is_change=True),
        "remove_raft_voter": Refusal(UnsupportedVersion, check=_check_leaving_voter, is_change=True),
        "unregister_broker": Refusal(
            partial(BrokerIdNotRegistered, "No broker of that id is registered."), check=_check_broker, is_change=True
        ),
    }
)


def _check_voter(
    ctx: RequestContext, cluster_id: str | None, voter_id: int, directory_id: UUID | None, request: str
) -> None:
    """Raises InconsistentClusterId, and InvalidRequest for an invalid voter."""
    ours = ctx.cluster.id
    if cluster_id is not None and cluster_id != ours:
        raise InconsistentClusterId(f'The given id "{cluster_id}" doesn\'t match the cluster id "{ours}"')
    if voter_id < 0 or directory_id is None:
        raise InvalidRequest(f"{request} voter request didn't include a valid voter")


def _refuse_voters(doing: str) -> NoReturn:
    raise UnsupportedVersion(f"Cluster doesn't support {doing} voter because the kraft.version feature is 0")
