"""The template of the test kit's nodes: a process that has loaded what they need, and forks one for each request.

A request comes from the kit (`odradek/warm.py`) over a socket, as four descriptors: the line of the node, its log, the
pipe for its ready line, and its folder. On the line the kit writes in JSON what else is the node's own, up to the end;
the template answers with the process id, and, as the parent, with the exit status once the node has ended. A node is
killed with its template. When the kit's process ends, the template ends the standard input of its nodes, which then
stop as any node started with `--exit-with-parent` does, and ends after them.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any

from broker import forked
from broker.api.table import MODULES

LOADED = (
    "uvloop",
    "broker.serve",
    "broker.testkit.control.server",
    "broker.faults.power_failure",
)
"""What each start needs, and is loaded before the first node; what is not installed is left out."""

LOADED_LATER = (
    "broker.testkit.control.app",
    "broker.http.connections",
    *(f"broker.api.{name}" for name in sorted(set(MODULES.values()))),
    "kio.index",
    "kio.static.protocol",
    "protocol.writer",
    "broker.coordinators.transactional_produce",
    "encodings.idna",
)
"""What nodes need soon after the start: it is loaded while nobody asks for a node."""

DESCRIPTORS = 4


@dataclass(slots=True)
class _Node:
    """Plain descriptors: an object that closed them would do so in each later node too, where the number is a file."""

    process: int
    line: int
    stdin: int | None


def load(name: str) -> None:
    """Load a module, and keep the garbage collector from writing to the pages that nodes will share."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
    gc.collect()
    gc.freeze()


class Template:
    """Forks nodes, and reports their ends. `control` is the kit's socket."""

    def __init__(self, control: int) -> None:
        self._control = socket.socket(fileno=control)
        self._parent = os.pidfd_open(os.getppid())
        self._nodes: dict[int, _Node] = {}
        self._accepts = True
        self._to_load = list(reversed(LOADED_LATER))
        self._poll = select.poll()
        for descriptor in (control, self._parent):
            self._poll.register(descriptor, select.POLLIN)

    def arguments_of_node(self) -> list[str]:
        """Return in each forked node, with its arguments; in the template, never: it ends after its last node."""
        control = self._control.fileno()
        for name in LOADED:
            load(name)
        while self._accepts or self._nodes:
            ready = self._poll.poll(0 if self._to_load else None)
            if not ready:
                load(self._to_load.pop())
            for descriptor, _ in ready:
                if descriptor == self._parent:
                    self._parent_ended()
                elif descriptor != control:
                    self._node_ended(descriptor)
                elif (arguments := self._request()) is not None:
                    return arguments
        sys.exit()

    def _request(self) -> list[str] | None:
        """Fork a node. None in the template; in the node, its arguments."""
        message, descriptors, _, _ = socket.recv_fds(self._control, 1, DESCRIPTORS)
        if not message:
            self._accept_no_more()
            return None
        line, log, ready, folder = descriptors
        stdin, held = os.pipe()
        own = _read_request(line)
        template = os.getpid()
        why = "the request was cut short" if own is None else forked.why_unsafe()
        process = os.fork() if why is None else None
        if process == 0 and own is not None:
            forked.end_with(template)
            self._control.detach()  # or it would close, some day, a file of the node's that has its number
            os.setpgid(0, 0)  # Ctrl-C is for the process that wanted the node
            os.fchdir(folder)
            os.umask(own["umask"])
            forked.keep(stdin, log, log, ready)
            forked.take_environment(own["environment"])
            return list(own["arguments"])
        for descriptor in (log, ready, folder, stdin):
            os.close(descriptor)
        if process is None:
            _say(line, refused=why)
            os.close(line)
            os.close(held)
            return None
        self._nodes[watch := os.pidfd_open(process)] = _Node(process, line, held)
        self._poll.register(watch, select.POLLIN)
        if not _say(line, pid=process):
            os.kill(process, signal.SIGKILL)  # whoever asked for it will not hear of it
        return None

    def _node_ended(self, watch: int) -> None:
        self._poll.unregister(watch)
        os.close(watch)
        node = self._nodes.pop(watch)
        _, status = os.waitpid(node.process, 0)
        _say(node.line, status=os.waitstatus_to_exitcode(status))
        os.close(node.line)
        if node.stdin is not None:
            os.close(node.stdin)

    def _parent_ended(self) -> None:
        self._poll.unregister(self._parent)
        self._accept_no_more()
        for node in self._nodes.values():
            if node.stdin is not None:
                os.close(node.stdin)
            node.stdin = None

    def _accept_no_more(self) -> None:
        if self._accepts:
            self._poll.unregister(self._control)
        self._accepts = False


def _read_request(line: int) -> dict[str, Any] | None:
    """Read a request up to its end; None if the kit's process ended before that."""
    with open(line, "rb", closefd=False) as stream:
        text = stream.read()
    try:
        request: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return request


def _say(line: int, **values: object) -> bool:
    """Write to the kit's process; False if that has ended, or wants to know no more."""
    try:
        os.write(line, json.dumps(values).encode() + b"\n")
    except BrokenPipeError:
        return False
    return True
