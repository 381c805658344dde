"""`odradek serve --brokers N`: runs several nodes, each in a process of its own; they stop together.

The controller starts first and stops last. A node that ends by itself is logged, and the others go on; when no broker
is left, the controller ends too. A second signal to stop kills what still runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from broker import forked
from broker.admin import wrong_configuration_ends
from broker.admin.node_processes import Fork, Process, fork_waiting, launch
from broker.admin.node_settings import CONTROLLER, Settings, all_settings, joining
from broker.config.sources import Loaded
from broker.process import Parent, Systemd
from timing.clock import SystemClock

logger = structlog.get_logger(__name__)

ReadyLine = dict[str, Any]
"""The ready line of a node, decoded; see `broker.serve`."""


@dataclass(slots=True)
class NodeProcess:
    """A node that was started; `ready` is what it said of itself when it began to serve."""

    node_id: int
    log_path: Path
    process: Process
    ready: ReadyLine = field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    @property
    def role(self) -> str:
        return "controller" if self.node_id == CONTROLLER else "broker"

    @property
    def address(self) -> str:
        address: str = next(iter([*self.ready["listeners"].values(), *self.ready["controllers"]]))
        return address


class Supervisor:
    """Runs the nodes until `stop` is set.

    `settings` are those of each node by its id, the controller's first; `arguments` are those of `serve` that all nodes
    share. `folder` gets their logs. `systemd` is told of all of them as of one service; the nodes know nothing of it.
    `forks` become the nodes; where there are none, each node is a new program.
    """

    def __init__(
        self,
        settings: Mapping[int, Settings],
        folder: str,
        arguments: Sequence[str],
        stop: asyncio.Event,
        systemd: Systemd,
        forks: list[Fork],
    ) -> None:
        self.nodes: list[NodeProcess] = []
        self._settings = settings
        self._folder = folder
        self._arguments = arguments
        self._stop = stop
        self._systemd = systemd
        self._forks = forks
        self._watching: list[asyncio.Task[None]] = []
        self._died = False

    async def run(self, say_ready: Callable[[ReadyLine, list[ReadyLine]], None]) -> int:
        """Start the nodes, say when all serve, and return the exit status: 0 if all of them stopped cleanly.

        `say_ready` is called with what the controller and the brokers say of themselves.
        """
        self._systemd.starting()
        try:
            if await self._start():
                self._systemd.ready(self._status())
                say_ready(self.nodes[0].ready, [broker.ready for broker in self._brokers])
                self._watching = [asyncio.ensure_future(self._watch(node)) for node in self.nodes]
                await self._stop.wait()
        finally:
            await self._end()
        clean = all(node.process.returncode == 0 for node in self.nodes)
        return 0 if clean and len(self.nodes) == len(self._settings) and not self._died else 1

    def _status(self) -> str:
        """Say which nodes serve, and which have died."""
        addresses = [node.address for node in self._brokers if node.is_running]
        died = [f"{node.role} {node.node_id} has died" for node in self.nodes if not node.is_running]
        return "; ".join([f"{len(addresses)} of {len(self._brokers)} brokers serve: {', '.join(addresses)}", *died])

    @property
    def _brokers(self) -> list[NodeProcess]:
        return self.nodes[1:]

    async def _start(self) -> bool:
        """Whether all nodes serve."""
        first = await self._launch(CONTROLLER, {})
        if not await self._is_ready(*first):
            return False
        ready = first[0].ready
        joined = joining(ready["controllers"][0], ready["cluster"])
        others = [await self._launch(node_id, joined) for node_id in self._settings if node_id != CONTROLLER]
        return all(await asyncio.gather(*(self._is_ready(*other) for other in others)))

    async def _launch(self, node_id: int, joined: Settings) -> tuple[NodeProcess, asyncio.StreamReader]:
        settings = self._settings[node_id] | joined
        file_name = "controller.log" if node_id == CONTROLLER else f"node-{node_id}.log"
        log_path = Path(self._folder, file_name)
        arguments = [*self._arguments, *_as_options(settings), "--exit-with-parent"]
        process: Process
        if self._forks:
            process = fork = self._forks.pop()
            ready = await fork.begin(arguments, log_path)
        else:
            process, ready = await launch(arguments, log_path)
        node = NodeProcess(node_id, log_path, process)
        self.nodes.append(node)
        return node, ready

    async def _is_ready(self, node: NodeProcess, ready: asyncio.StreamReader) -> bool:
        """Whether it serves, once it does; not if it ended, or all are to stop."""
        line = asyncio.ensure_future(ready.readline())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((line, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not line.done():
            line.cancel()
            return False
        if not line.result():
            logger.error("a node could not start", node=node.node_id, log=str(node.log_path), said=_end_of(node))
            return False
        node.ready = json.loads(line.result())
        self._systemd.note(f"{sum(bool(node.ready) for node in self.nodes)} of {len(self._settings)} nodes serve")
        logger.info("node serves", node=node.node_id, address=node.address, role=node.role, log=str(node.log_path))
        return True

    async def _watch(self, node: NodeProcess) -> None:
        status = await node.process.wait()
        if not self._stop.is_set():
            self._died = True
            so = "nothing in the cluster can change" if node.node_id == CONTROLLER else "the others go on"
            logger.error(
                f"a node has died; {so}",
                node=node.node_id,
                role=node.role,
                exit_status=status,
                log=str(node.log_path),
                said=_end_of(node),
            )
            self._systemd.say(self._status())
            if not any(broker.is_running for broker in self._brokers):
                self._stop.set()

    # -- the end

    async def _end(self) -> None:
        """Stop the nodes, the controller last, or kill them if there is another signal."""
        self._stop.set()
        self._systemd.stopping()
        killing = asyncio.ensure_future(self._kill_at_once())
        for several in (self._brokers, self.nodes[:1]):
            for node in several:
                if node.is_running:
                    node.process.terminate()
            await asyncio.gather(*(node.process.wait() for node in several))
        killing.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        logger.info("all nodes have ended")

    async def _kill_at_once(self) -> None:
        again = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, again.set)
        await again.wait()
        logger.warning("asked to stop again: what still runs is killed")
        for node in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                node.process.kill()


def _as_options(settings: Settings) -> list[str]:
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def _end_of(node: NodeProcess) -> str:
    """The last line of its log."""
    lines = node.log_path.read_text(errors="replace").splitlines()
    return lines[-1] if lines else ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The settings of each node by its id; the processes that wait to become the nodes, or why there are none."""

    settings: dict[int, Settings]
    forks: list[Fork]
    why_none: str | None


def prepare(loaded: Loaded, count: int, serve: Callable[[list[str]], Any]) -> Prepared:
    """Make what `run_nodes` needs, before this process does anything else. A node calls `serve` with its arguments."""
    with wrong_configuration_ends():
        settings = all_settings(loaded, count)
    why_none = forked.why_unsafe()
    return Prepared(settings, [] if why_none else fork_waiting(len(settings), serve), why_none)


def run_nodes(
    loaded: Loaded,
    prepared: Prepared,
    arguments: Sequence[str],
    write_ready: Callable[[ReadyLine], None],
    parent: Parent | None,
) -> int:
    """Run the nodes, and return the exit status. `arguments` are those of `serve` that every node has.

    The ready line has `nodes`, with the ready line of each broker, and `controller`, with the controller's.
    """
    if prepared.why_none is not None:
        logger.info("each node is started as a new program: no fork is possible", why=prepared.why_none)
    folder = loaded.config.log_dirs[0]
    os.makedirs(folder, exist_ok=True)

    async def run() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        if parent is not None:
            parent.watch(loop, stop)
        systemd = Systemd(os.environ, SystemClock(loop))
        supervisor = Supervisor(prepared.settings, folder, arguments, stop, systemd, prepared.forks)
        return await supervisor.run(
            lambda controller, brokers: write_ready(
                {"ready": True, "nodes": brokers, "controller": controller, "pid": os.getpid()}
            )
        )

    return asyncio.run(run())


def shared_arguments(config_files: Sequence[str], settings: Sequence[str]) -> list[str]:
    """Return the arguments of `serve` that every node has."""
    files = [part for name in config_files for part in ("--config", os.path.abspath(name))]
    return files + [part for setting in settings for part in ("--set", setting)]
