"""Why a request to another node has no answer. What the other node answers, an error code included, is an answer."""

from __future__ import annotations


class PeerError(Exception):
    """The request was not answered; it may or may not have been handled. The message names the node's address."""


class PeerUnreachableError(PeerError):
    """No connection could be opened, or the other node is no broker or controller: nothing was sent."""


class PeerAuthenticationError(PeerError):
    """The other node does not take this node's credentials, or cannot show that it knows them."""


class PeerDisconnectedError(PeerError):
    """The connection ended before the answer came."""


class PeerTimeoutError(PeerError):
    """The answer did not come in time; the connection was closed, since later answers would wait behind it."""


class PeerVersionError(PeerError):
    """The other node serves no version of the API that this node speaks: nothing was sent."""
