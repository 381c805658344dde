"""Tells that the broker serves, and where: to the process that started it, and to health checks."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from broker.process import STDERR

if TYPE_CHECKING:
    from broker.node import Node

logger = structlog.get_logger("broker")


class Ready:
    """Writes one JSON line to a descriptor, to a file, or to both.

    The line has `listeners` (the advertised host:port by listener), `bound` (as the setting `listeners`, with the ports
    that were opened), `controllers` (the host:port by which other nodes reach this one as their controller), `cluster`
    (the cluster's id), `http` (the port, null if it is off), `http_host`, `control` (the address of the control
    interface, null if it is off) and `pid`.
    """

    def __init__(self, descriptor: int | None, path: str | None) -> None:
        self._descriptor = descriptor
        self._path = path
        if path is not None:  # of an earlier start
            with contextlib.suppress(OSError):
                os.unlink(path)

    def tell(self, node: Node, http_port: int | None, control_url: str | None = None) -> None:
        """Write the line; a failure is only logged."""
        self.write(_line(node, http_port, control_url))

    def write(self, values: Mapping[str, object]) -> None:
        """Write a line with these values; a failure is only logged."""
        line = json.dumps(values) + "\n"
        if self._descriptor is not None:
            try:
                with os.fdopen(self._descriptor, "w", closefd=self._descriptor > STDERR) as stream:
                    stream.write(line)
            except BrokenPipeError:
                pass  # the reader is gone
            except OSError as error:
                logger.warning("ready line not written", descriptor=self._descriptor, error=str(error))
        if self._path is not None:
            try:
                with open(self._path, "w") as file:
                    file.write(line)
            except OSError as error:
                logger.warning("ready line not written", path=self._path, error=str(error))


def _line(node: Node, http_port: int | None, control_url: str | None) -> dict[str, object]:
    return {
        "ready": True,
        "listeners": node.bound.addresses,
        "bound": node.bound.listeners,
        "controllers": [f"{address.host}:{address.port}" for address in node.bound.controllers],
        "cluster": node.cluster.id,
        "http": http_port,
        "http_host": node.local.config.string("odradek.http.host"),
        "control": control_url,
        "pid": os.getpid(),
    }
