"""The guard before the handlers: it makes checks of an API's rights, and obeys them with the rights of the client.

`checks_of` makes them from the rights of the API's row, and from what its messages name (`names`). A check of the whole
request refuses it; one of each item of a list answers those without the right, and hands the others to the handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.authorization import names
from broker.authorization.names import Name, Resource, Resources
from broker.network.ports import Handle
from broker.request_context import RequestContext
from broker.security.permissions import Permissions
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from protocol.api import failure
from protocol.api.rights import Right
from protocol.api.row import Api
from protocol.errors import (
    ClusterAuthorization,
    DelegationTokenAuthorization,
    GroupAuthorization,
    KafkaError,
    TopicAuthorization,
    TransactionalIdAuthorization,
)

if TYPE_CHECKING:
    from broker.network.ports import Handler
    from broker.network.request import Peer
    from broker.security.authorizer import Authorizer


Answer: TypeAlias = Callable[[RequestContext, Any, KafkaError], Any]
"""The API's response to a request that failed as a whole."""

IN_A_TURN = 1000
"""Items of a request that are authorized, or refused, before the loop serves others: some 5 ms."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Makes the response to a request, or to some of its items, that failed, and counts it as one error of the API."""

    api: str
    response: Answer
    items: Answer

    def __call__(self, ctx: RequestContext, request: Any, error: KafkaError) -> Any:
        self.count(ctx, error)
        return self.response(ctx, request, error)

    def of_items(self, ctx: RequestContext, request: Any, error: KafkaError) -> Any:
        self.count(ctx, error)
        return self.items(ctx, request, error)

    def count(self, ctx: RequestContext, error: KafkaError) -> None:
        ctx.local.metrics.request_error(self.api, error.code)


ERRORS: dict[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorization,
    ResourceType.GROUP: GroupAuthorization,
    ResourceType.CLUSTER: ClusterAuthorization,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorization,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorization,
    ResourceType.USER: DelegationTokenAuthorization,
}
"""The error of a client that lacks a right, by the resource."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The request needs one of these operations on a resource; otherwise it is refused as a whole.

    `name` is the resource's name in a request, None if the request needs no right.
    """

    operations: tuple[AclOperation, ...]
    resource_type: ResourceType
    name: Name

    def around(self, handle: Handle, _fail: Fail) -> Handle:
        """The handler with this check before it."""
        operations, resource_type, name_of = self.operations, self.resource_type, self.name
        error = ERRORS[resource_type]

        def checked(ctx: RequestContext, request: Any) -> Any:
            name = name_of(ctx, request)
            if name is not None and not any(ctx.allows(operation, resource_type, name) for operation in operations):
                raise error
            return handle(ctx, request)

        return checked


@dataclass(frozen=True, slots=True)
class Each:
    """Each item of a list in the request needs an operation on a resource.

    What the client has no right to is answered with an error, as if it had been asked alone; the handler gets the rest.

    Attributes:
        asked, answered: the field of the request with the items, and that of the response with the answers to them.
        resources: the resource of each item of a request, None for an item that needs no right.
        unless: an operation on the cluster that makes all others needless.
    """

    operation: AclOperation
    asked: str
    answered: str
    resources: Resources
    unless: AclOperation | None = None

    def around(self, handle: Handle, fail: Fail) -> Handle:
        """The handler with this check before it."""

        def checked(ctx: RequestContext, request: Any) -> Any:
            items = getattr(request, self.asked)
            if not items or (
                self.unless is not None
                and ctx.allows(self.unless, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False)
            ):
                return handle(ctx, request)
            if len(items) > IN_A_TURN:
                ctx.begun = False  # the connection's next request waits, as nothing is appended yet
                return self._in_turns(ctx, request, handle, fail)
            allowed, forbidden = self._split(ctx, zip(items, self.resources(ctx, request), strict=True))
            if not forbidden:
                return handle(ctx, request)

            def with_failures(response: Any) -> Any:
                for error, items in forbidden.items():
                    failed = fail.of_items(ctx, self._with(request, items), error())
                    response = failed if response is None else self._merged(failed, response)
                return response

            if not allowed:
                return with_failures(None)
            rest = self._with(request, allowed)
            try:
                answer = handle(ctx, rest)
            except KafkaError as error:
                answer = fail(ctx, rest, error)
            return _then(answer, with_failures, lambda error: fail(ctx, rest, error))

        return checked

    async def _in_turns(self, ctx: RequestContext, request: Any, handle: Handle, fail: Fail) -> Any:
        """As in `around`, for so many items that others would have to wait; their order stays."""
        ctx.connection.spent_ms()  # the wait for this turn does not count for the client
        pairs = zip(getattr(request, self.asked), self.resources(ctx, request), strict=True)
        allowed: list[Any] = []
        forbidden: dict[type[KafkaError], list[Any]] = {}
        while some := list(islice(pairs, IN_A_TURN)):
            more, refused = self._split(ctx, some)
            allowed += more
            for error, items in refused.items():
                forbidden.setdefault(error, []).extend(items)
            await ctx.turn()
        response = None
        if allowed:
            rest = self._with(request, allowed) if forbidden else request
            try:
                response = await self._handled(ctx, rest, handle)
            except KafkaError as error:
                if not forbidden:
                    raise
                response = fail(ctx, rest, error)
        for kind, items in forbidden.items():
            refusal = kind()
            fail.count(ctx, refusal)
            parts: list[Any] = []
            for start in range(0, len(items), IN_A_TURN):
                part = fail.items(ctx, self._with(request, items[start : start + IN_A_TURN]), refusal)
                parts += getattr(part, self.answered)
                await ctx.turn()
            failed = replace(part, **{self.answered: type(getattr(part, self.answered))(parts)})
            response = failed if response is None else self._merged(failed, response)
        return response

    @staticmethod
    async def _handled(ctx: RequestContext, request: Any, handle: Handle) -> Any:
        """The handler's answer; what it says about its appends is for the connection's next request."""
        ctx.begun = True
        answer = handle(ctx, request)
        if ctx.begun:
            ctx.note_appended()
        if isinstance(answer, Awaitable):
            answer = await answer
            ctx.connection.spent_ms()
        return answer

    def _split(
        self, ctx: RequestContext, pairs: Iterable[tuple[Any, Resource | None]]
    ) -> tuple[list[Any], dict[type[KafkaError], list[Any]]]:
        """The items that the client has a right to, and the others, by their error."""
        allowed: list[Any] = []
        forbidden: dict[type[KafkaError], list[Any]] = {}
        for item, resource in pairs:
            if resource is None or ctx.allows(self.operation, *resource):
                allowed.append(item)
            else:
                forbidden.setdefault(ERRORS[resource[0]], []).append(item)
        return allowed, forbidden

    def _with(self, request: Any, items: Sequence[Any]) -> Any:
        return replace(request, **{self.asked: type(getattr(request, self.asked))(items)})

    def _merged(self, failed: Any, response: Any) -> Any:
        field = self.answered
        return replace(response, **{field: getattr(failed, field) + getattr(response, field)})


@dataclass(frozen=True, slots=True)
class InTurns:
    """A handler that checks and answers the items of a list one by one, in a list of the same name: many in turns."""

    asked: str
    items: Callable[[Any], Sequence[Any] | None]

    def around(self, handle: Handle, _fail: Fail) -> Handle:
        """The handler, to which many items are handed some at a time."""

        def sliced(ctx: RequestContext, request: Any) -> Any:
            if len(getattr(request, self.asked) or ()) <= IN_A_TURN:
                return handle(ctx, request)
            return self._in_turns(ctx, request, self.items(request) or (), handle)

        return sliced

    async def _in_turns(self, ctx: RequestContext, request: Any, items: Sequence[Any], handle: Handle) -> Any:
        """The handler's answer to all items, each of which it answers by itself."""
        ctx.connection.spent_ms()
        response: Any = None
        answered: list[Any] = []
        for start in range(0, len(items), IN_A_TURN):
            some = replace(request, **{self.asked: tuple(items[start : start + IN_A_TURN])})
            response = handle(ctx, some)
            if isinstance(response, Awaitable):
                response = await response
                ctx.connection.spent_ms()
            answered += getattr(response, self.asked)
            await ctx.turn()
        return replace(response, **{self.asked: tuple(answered)})


@dataclass(frozen=True, slots=True)
class Checked:
    """A check of its own form, which raises KafkaError."""

    check: Callable[[RequestContext, Any], None]

    def around(self, handle: Handle, _fail: Fail) -> Handle:
        """The handler with this check before it."""

        def checked(ctx: RequestContext, request: Any) -> Any:
            self.check(ctx, request)
            return handle(ctx, request)

        return checked


def checks_of(api: Api, rights: Iterable[Right]) -> Iterator[Whole | Each | InTurns | Checked]:
    """The checks for these rights of an API, without those that its handler makes itself."""
    for right in rights:
        rule = getattr(names, right.rule) if right.rule else None
        kind = ResourceType[right.on]
        operations = tuple(AclOperation[name] for name in right.operations)
        if right.how == "whole":
            yield Whole(operations, kind, rule or names.of_request(api, kind))
        elif right.how == "each":
            asked, answered = names.lists_of(api, kind)
            resources = rule or names.of_items(api, kind)
            unless = None if right.unless is None else AclOperation[right.unless]
            yield Each(operations[0], asked, answered, resources, unless)
        elif right.in_turns:
            yield InTurns(right.in_turns, rule or attrgetter(right.in_turns))
        elif rule is not None:
            yield Checked(rule)


def _then(answer: Any, finish: Callable[[Any], Any], failed: Callable[[KafkaError], Any]) -> Any:
    """Finish a handler's answer, or `failed` if that is a KafkaError: now, or later if it waits."""
    if isinstance(answer, Awaitable):
        return _later(answer, finish, failed)
    return finish(answer)


async def _later(answer: Awaitable[Any], finish: Callable[[Any], Any], failed: Callable[[KafkaError], Any]) -> Any:
    try:
        response = await answer
    except KafkaError as error:
        response = failed(error)
    return finish(response)


class Guard:
    """See `broker.network.ports.Guards`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer

    def guarded(self, api: Api, handler: Handler, *, of_controller: bool) -> Handle:
        """The handler's function with the API's checks before it."""
        rights = api.rights_of_nodes if of_controller and api.rights_of_nodes is not None else api.rights
        handle = handler.handle
        if not rights:
            return handle
        own = handler.failed
        fail = Fail(api.name, own or partial(failure.failed, api), own or partial(failure.of_items, api))
        checked = handle
        for check in reversed(list(checks_of(api, rights))):
            checked = check.around(checked, fail)
        may_be_elsewhere = api.place == "decides"
        permissions_of = self.permissions_of

        def guarded(ctx: RequestContext, request: Any) -> Any:
            if may_be_elsewhere and ctx.controller.is_elsewhere:
                return handle(ctx, request)
            permissions = ctx.permissions = permissions_of(ctx.connection)
            return handle(ctx, request) if permissions.is_super_user else checked(ctx, request)

        return guarded

    def permissions_of(self, client: Peer) -> Permissions:
        """Return the client's permissions, which are kept at its connection."""
        known: Permissions | None = client.permissions
        if known is None or known.of is not client.principal:
            known = client.permissions = Permissions(self.authorizer, client.principal, client.client_address)
        return known
