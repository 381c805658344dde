"""How a node has changes decided: by its own controller, or by the controllers of its cluster.

A controller in this process is handed the decision, a function of the image. One elsewhere is sent the client's
request, makes the same decision itself, and gives the response.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from controller.decision import Decision, Surroundings
from controller.local import LocalController
from metadata.image import MetadataImage
from protocol.schema import Entity

R = TypeVar("R")


class ClientPrincipal(Protocol):
    """The identity of a client (`broker.network.request.Principal`)."""

    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def token_authenticated(self) -> bool: ...


class RequestSender(Protocol):
    """The connection that a request came on."""

    client_host: str

    @property
    def principal(self) -> ClientPrincipal: ...


class RawRequest(Protocol):
    """A client's request as it came: its header, and `body`, the bytes after it."""

    @property
    def connection(self) -> RequestSender: ...
    @property
    def api_key(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def body(self) -> bytes: ...


class Controller(Protocol):
    """Decides on changes of the cluster's metadata.

    Attributes:
        is_elsewhere: the controller is in another process.
    """

    is_elsewhere: bool

    @property
    def around(self) -> Surroundings:
        """Return the services that decisions in this process need besides the image."""

    async def submit(
        self,
        decide: Callable[[MetadataImage], Decision[R]],
        request: Entity | None = None,
    ) -> R:
        """Have a change decided, and return the response once it is made.

        `request` is what the node itself asks if the controller is elsewhere, which then decides in place of `decide`.
        Raises what the decision raises, and KafkaError if it cannot be made.
        """

    def forward(self, asked: RawRequest, request: Entity | None = None) -> Awaitable[Any]:
        """Send a client's request on to a controller that is elsewhere, and return its response.

        `request` is what is asked in place of the client's. Raises KafkaError if no controller answers.
        """


class OwnController:
    """The controller of this process."""

    is_elsewhere = False

    def __init__(self, local: LocalController) -> None:
        self._local = local

    @property
    def around(self) -> Surroundings:
        return self._local.around

    async def submit(
        self,
        decide: Callable[[MetadataImage], Decision[R]],
        request: Entity | None = None,
    ) -> R:
        """See `Controller.submit`; the request itself is not needed."""
        return await self._local.submit(decide)

    def forward(self, asked: RawRequest, request: Entity | None = None) -> Awaitable[Any]:
        raise AssertionError("this controller decides itself")
