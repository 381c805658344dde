"""The start of several brokers at once, none of which waits for another longer than it has to."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from odradek.process import BrokerStartError

if TYPE_CHECKING:
    from odradek.cluster.broker import ClusterBroker

END_S = 0.05


class ReservedPort:
    """A port of loopback that nobody else is given, for a listener whose address others have to know before it is open.

    It is bound, without listening: on Linux a listener that says so may take it all the same.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        self._socket.close()


def start_together(brokers: Sequence[ClusterBroker], port: ReservedPort) -> None:
    """Start these nodes, and return once all serve. If one fails, those that were started are killed.

    Raises BrokerStartError, which says which one it was.
    """
    with ThreadPoolExecutor(len(brokers), "odradek-start") as threads:
        starts = {threads.submit(broker.start): broker for broker in brokers}
        try:
            wait(starts, return_when=FIRST_EXCEPTION)
            for start, broker in starts.items():
                if start.done():
                    _require(start, broker)
        except BaseException:
            _end(starts)
            raise
    port.release()


def _require(start: Future[ClusterBroker], broker: ClusterBroker) -> None:
    try:
        start.result()
    except BrokerStartError as error:
        raise BrokerStartError(f"{broker.title} of the cluster: {error}") from error


def _end(starts: dict[Future[ClusterBroker], ClusterBroker]) -> None:
    """Kill the brokers, also those that are about to be started."""
    left = set(starts)
    while left:
        for broker in starts.values():
            if broker.running:
                with contextlib.suppress(RuntimeError):  # its start has just failed
                    broker.kill()
        left = wait(left, END_S).not_done
    for broker in starts.values():
        if broker.running:
            broker.kill()
