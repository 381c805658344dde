"""The kinds of checks that stand before a handler, and what becomes of a request that fails one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from broker.request_context import RequestContext
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from protocol.errors import (
    ClusterAuthorization,
    DelegationTokenAuthorization,
    GroupAuthorization,
    KafkaError,
    TopicAuthorization,
    TransactionalIdAuthorization,
)

Handle: TypeAlias = Callable[[RequestContext, Any], Any]
"""A handler's function; see `broker.handlers`."""

Fail: TypeAlias = Callable[[RequestContext, Any, KafkaError], Any]
"""The API's response to a request that failed as a whole."""

ERRORS: dict[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorization,
    ResourceType.GROUP: GroupAuthorization,
    ResourceType.CLUSTER: ClusterAuthorization,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorization,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorization,
    ResourceType.USER: DelegationTokenAuthorization,
}
"""The error of a client that lacks a right, by the resource."""

Resource: TypeAlias = tuple[ResourceType, str]


@dataclass(frozen=True, slots=True)
class Whole:
    """The request needs one of these operations on a resource; otherwise it is refused as a whole.

    Attributes:
        name: the resource's name in a request, None if the request needs no right.
        what: the resource, for the page of the docs.
    """

    operations: tuple[AclOperation, ...]
    resource_type: ResourceType
    name: Callable[[RequestContext, Any], str | None]
    what: str

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
        resource_types: those that `resources` may give, for the page of the docs.
        what: the items, for the same page.
        unless: an operation on the cluster that makes all others needless.
    """

    operation: AclOperation
    asked: str
    answered: str
    resources: Callable[[RequestContext, Any], Iterable[Resource | None]]
    resource_types: tuple[ResourceType, ...]
    what: str
    unless: AclOperation | None = None

    def around(self, handle: Handle, fail: Fail) -> Handle:
        """The handler with this check before it."""

        def checked(ctx: RequestContext, request: Any) -> Any:
            allowed, forbidden = self._split(ctx, request)
            if not forbidden:
                return handle(ctx, request)

            def with_failures(response: Any) -> Any:
                for error, items in forbidden.items():
                    failed = fail(ctx, self._with(request, items), error())
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

    def _split(self, ctx: RequestContext, request: Any) -> tuple[Sequence[Any], dict[type[KafkaError], list[Any]]]:
        """The items that the client has a right to, and the others, by their error."""
        items = getattr(request, self.asked)
        if not items or (
            self.unless is not None and ctx.allows(self.unless, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False)
        ):
            return items, {}
        allowed: list[Any] = []
        forbidden: dict[type[KafkaError], list[Any]] = {}
        for item, resource in zip(items, self.resources(ctx, request), strict=True):
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
class Own:
    """A check of its own form, which raises KafkaError; or one that the handler makes itself, without a function.

    `shows_less`: a client without the right gets no error, but a smaller answer.
    """

    operations: tuple[AclOperation, ...]
    resource_type: ResourceType
    what: str
    check: Callable[[RequestContext, Any], None] | None = None
    shows_less: bool = False

    def around(self, handle: Handle, _fail: Fail) -> Handle:
        """The handler with this check before it."""
        check = self.check
        if check is None:
            return handle

        def checked(ctx: RequestContext, request: Any) -> Any:
            check(ctx, request)
            return handle(ctx, request)

        return checked


Check: TypeAlias = Whole | Each | Own


def _then(answer: Any, finish: Callable[[Any], Any], failed: Callable[[KafkaError], Any]) -> Any:
    """What `finish` makes of a handler's answer, or of `failed` if that is a KafkaError: now, or later if it waits."""
    if isinstance(answer, Awaitable):
        return _later(answer, finish, failed)
    return finish(answer)


async def _later(answer: Awaitable[Any], finish: Callable[[Any], Any], failed: Callable[[KafkaError], Any]) -> Any:
    try:
        response = await answer
    except KafkaError as error:
        response = failed(error)
    return finish(response)
