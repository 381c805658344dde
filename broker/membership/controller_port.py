"""How a node has changes decided: by its own controller, or by the controllers of its cluster.

A handler passes both what each form needs: the decision, a function of the image, for a controller in this process;
and the client's request, for one elsewhere, which makes the same decision itself and gives the response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from controller.decision import Decision, Surroundings
from controller.local import LocalController
from metadata.image import MetadataImage
from protocol.schema import Entity

R = TypeVar("R")


class ClientPrincipal(Protocol):
    """Who a client is (`broker.network.principal.Principal`)."""

    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def token_authenticated(self) -> bool: ...


class Sender(Protocol):
    """The connection that a request came on."""

    client_host: str

    @property
    def principal(self) -> ClientPrincipal: ...


class Asked(Protocol):
    """A client's request as it came: its header, and `body`, the bytes after it."""

    @property
    def connection(self) -> Sender: ...
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
    """What decides on changes of the cluster's metadata.

    Attributes:
        is_elsewhere: the controller is in another process.
    """

    is_elsewhere: bool

    @property
    def around(self) -> Surroundings:
        """What decisions in this process need besides the image."""

    async def submit(
        self,
        decide: Callable[[MetadataImage], Decision[R]],
        asked: Asked | None = None,
        request: Entity | None = None,
    ) -> R:
        """Have a change decided, and return the response once it is made.

        `asked` is the client's request, if there is one; `request` is what is asked in its place, or by the node
        itself. Raises what the decision raises, and KafkaError if it cannot be made.
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
        asked: Asked | None = None,
        request: Entity | None = None,
    ) -> R:
        """See `Controller.submit`; the request itself is not needed."""
        return await self._local.submit(decide)


def decided_elsewhere(_image: MetadataImage) -> Decision[Any]:
    """For requests that no node decides on itself: they are only ever sent on."""
    raise AssertionError("this request is only sent on")
