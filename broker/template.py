"""The template of the test kit's nodes: a process that has loaded what they need, and forks one for each request.

A request comes from the kit (`odradek/warm.py`) over a socket, as four descriptors: the line of the node, its log, the
pipe for its ready line, and its folder. On the line the kit writes in JSON what else is the node's own. The template
answers with the process id, which the kit acknowledges by ending its side, and, as it is the parent, with the exit
status once the node has ended. A node is killed with its template. When the kit's process ends, the template ends the
standard input of its nodes, which then stop as any node started with `--exit-with-parent` does, and ends after them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker import forked
from broker.api.table import MODULES
from protocol import compiled
from protocol.api import messages
from protocol.api.table import API_BY_NAME

LOADED = (
    "uvloop",
    "broker.program",
    "broker.serve",
    "controller.restoring",
    "broker.testkit.control.server",
    "broker.faults.power_failure",
    "broker.registry.host",
)
"""What each start needs, and is loaded before the first node; what is not installed is left out."""

LOADED_LATER = (
    "broker.testkit.control.app",
    "broker.observe.http_app",
    "broker.membership.followed_metadata",
    "broker.observe.cluster_metrics",
    "controller.create_topics",
    "controller.producer_ids",
    "broker.http.connections",
    *(f"broker.api.{name}" for name in sorted(set(MODULES.values()))),
    "kio.index",
    "kio.static.protocol",
    "protocol.writer",
    "broker.coordinators.transactional_produce",
    "encodings.idna",
)
"""What nodes need soon after the start: it is loaded while nobody asks for a node."""

OF_CLIENTS = (
    *("api_versions", "metadata", "produce", "fetch", "list_offsets", "find_coordinator", "join_group", "sync_group"),
    *("heartbeat", "leave_group", "offset_commit", "offset_fetch", "consumer_group_heartbeat", "create_topics"),
    *("init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "txn_offset_commit", "end_txn"),
)
"""The APIs whose messages are made ready too, in all versions: each client has its own."""

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


def make_ready(name: str) -> None:
    """Make what reads and writes an API's messages, as a connection does when it first meets a version."""
    api = API_BY_NAME[name]
    for version in range(api.lowest, api.highest + 1):
        messages.request_reader(api.key, version)
        messages.response_writer(api.key, version)
    gc.collect()
    gc.freeze()


class Template:
    """Forks nodes, and reports their ends. `control` is the kit's socket; with `together` several nodes start at once.

    Then each would load for itself what is loaded later, so it is loaded before.
    """

    def __init__(self, control: int, together: bool = False) -> None:
        self._control = socket.socket(fileno=control)
        self._parent = os.pidfd_open(os.getppid())
        self._nodes: dict[int, _Node] = {}  # by the descriptor that says when it ends
        self._unanswered: dict[int, int] = {}  # nodes by their lines, of which the kit has not said that it took them
        self._accepts = True
        self._left: list[Callable[[], None]] = [
            *(partial(load, name) for name in LOADED_LATER),
            *(partial(make_ready, name) for name in OF_CLIENTS),
            compiled.keep,
        ]
        for name in LOADED + (LOADED_LATER if together else ()):
            load(name)
        self._poll = select.poll()
        for descriptor in (control, self._parent):
            self._poll.register(descriptor, select.POLLIN)

    def arguments_of_node(self) -> list[str]:
        """Return in each forked node, with its arguments; in the template, never: it ends after its last node."""
        control = self._control.fileno()
        while self._accepts or self._nodes:
            ready = self._poll.poll(0 if self._left else None)
            if not ready:
                self._left.pop(0)()
            for descriptor, events in ready:
                if descriptor == self._parent:
                    self._parent_ended()
                elif descriptor in self._nodes:
                    self._node_ended(descriptor)
                elif descriptor in self._unanswered:
                    self._answered(descriptor, events)
                elif descriptor == control and (arguments := self._request()) is not None:
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
        process, why = _fork() if own is not None else (None, "the request was cut short")
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
        self._unanswered[line] = process
        self._poll.register(watch, select.POLLIN)
        self._poll.register(line, select.POLLRDHUP)
        _say(line, pid=process)
        return None

    def _answered(self, line: int, events: int) -> None:
        """The kit has taken the node, or has closed the line before that: then nobody knows of the node."""
        self._poll.unregister(line)
        process = self._unanswered.pop(line)
        if events & select.POLLHUP:
            os.kill(process, signal.SIGKILL)

    def _node_ended(self, watch: int) -> None:
        self._poll.unregister(watch)
        os.close(watch)
        node = self._nodes.pop(watch)
        if self._unanswered.pop(node.line, None) is not None:
            self._poll.unregister(node.line)
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


def _fork() -> tuple[int | None, str | None]:
    """The process id, 0 in the new process; or None, and why there is no new process."""
    why = forked.why_unsafe()
    try:
        return (os.fork(), None) if why is None else (None, why)
    except OSError as error:
        return None, f"fork: {error.strerror}"


def _read_request(line: int) -> dict[str, Any] | None:
    """Read a request, which is one line; None if the kit's process ended before that."""
    with open(line, "rb", closefd=False) as stream:
        text = stream.readline()
    try:
        request: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return request


def _say(line: int, **values: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # the kit's process has ended, or wants to know no more
        os.write(line, json.dumps(values).encode() + b"\n")
