"""`odradek serve`: the process of a node, from its options to its exit status.

It loads the configuration, starts the node on an event loop, tells those who wait for it that the node serves
(`Ready`), and stops the node on a signal, at its parent's end, or when its folders cannot be used any more. With
`--brokers` it runs several such processes (`broker/admin/supervisor.py`).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click
import structlog

from broker import logging, operator_requests, process
from broker.admin import wrong_configuration_ends
from broker.background import Stopped
from broker.config.broker_config import BrokerConfig
from broker.config.sources import Loaded, config_options, load_options
from broker.config.structured import control_address
from broker.membership.broker_lifecycle import RegistrationError
from broker.network.server import ListenError
from broker.node import Node
from broker.node_start import start_node
from broker.node_state import Seams
from broker.observe.otlp_export import OtlpError, OtlpExport, check_export
from broker.observe.process_metrics import GcTime
from broker.peers.call import PeerError
from broker.process import Parent, Systemd
from broker.security.sources import SecurityError
from protocol import compiled
from protocol.errors import KafkaError
from storage.files import FileSystem, OsFileSystem, UnsyncedFileSystem
from storage.folders.log_dirs import LogDirError
from storage.workers import ThreadWorkers
from timing.clock import Clock, SystemClock

if TYPE_CHECKING:
    from broker.console import Console
    from broker.registry.host import RegistryHost
    from broker.registry.server import RegistryServer
    from broker.testkit.control import ControlServer

logger = structlog.get_logger("broker")

LAST_WORK_MS = 2000
"""How long a process that has closed its data waits for its threads, which may still be removing files."""

START_PATIENCE_MS = 3000
"""How long a start may go on after a signal to stop; if it ends in time, the stop is clean."""


@click.command()
@config_options
@click.option("--fallback", metavar="FILE", help="Read this file if nothing else sets any of its configurations.")
@click.option("--control", metavar="HOST:PORT", help="Open the control interface of the test kit; port 0: a free one.")
@click.option("--profile", metavar="NAME", help="Settings for a purpose: dev, test or kafka (Kafka's defaults).")
@click.option("--brokers", type=int, metavar="N", help="Run so many brokers as one cluster, a process each.")
@click.option("--ready-fd", type=int, help="Write one JSON line to this descriptor once the broker serves.")
@click.option("--ready-file", metavar="FILE", help="Write the same line to this file, which health checks read.")
@click.option("--exit-with-parent", is_flag=True, help="Stop when standard input or the parent ends.")
@click.option("--remove-with-parent", metavar="FOLDER", help="Then also remove this folder, at the end.")
def serve(
    config_files: tuple[str, ...],
    fallback: str | None,
    control: str | None,
    brokers: int | None,
    profile: str | None,
    settings: tuple[str, ...],
    ready_fd: int | None,
    ready_file: str | None,
    exit_with_parent: bool,
    remove_with_parent: str | None,
) -> None:
    """Run a broker, or several, until SIGTERM, SIGINT or SIGHUP."""
    process.open_standard_descriptors()
    if ready_fd is not None and not process.is_open(ready_fd):
        raise click.BadParameter(f"descriptor {ready_fd} is not open", param_hint="--ready-fd")
    if control is not None:
        settings = (f"odradek.control={control}", *settings)
    if profile is not None:
        settings = (f"odradek.profile={profile}", *settings)
    with wrong_configuration_ends():
        loaded = load_options(config_files, settings, fallback=fallback)
    nodes = None
    if brokers is not None:
        from broker.admin.supervisor import prepare, run_nodes, shared_arguments

        nodes = prepare(loaded, brokers, lambda arguments: serve.main(arguments, prog_name="odradek serve"))
    tracebacks = logging.configure(
        loaded.config.string("odradek.log.level"), loaded.config.string("odradek.log.format")
    )
    for warning in loaded.warnings:
        logger.warning(warning)
    parent = Parent() if exit_with_parent else None
    if parent is not None and remove_with_parent is not None:
        atexit.register(parent.remove, remove_with_parent)
    ready = Ready(ready_fd, ready_file)
    if nodes is not None:
        sys.exit(run_nodes(loaded, nodes, shared_arguments(config_files, settings), ready.write, parent))
    _run(loaded.config.string("odradek.loop"), lambda: _serve(loaded, tracebacks, ready, parent))


class Ready:
    """Writes one JSON line to a descriptor, to a file, or to both.

    The line has `listeners` (the advertised host:port by listener), `bound` (as the setting `listeners`, with the ports
    that were opened), `controllers` (the host:port by which other nodes reach this one as their controller), `cluster`
    (the cluster's id), `http` (the port, null if it is off), `http_host`, `control` (the address of the control
    interface, null if it is off), `registry` (the URLs of the schema registry) and `pid`.
    """

    def __init__(self, descriptor: int | None, path: str | None) -> None:
        self._descriptor = descriptor
        self._path = path
        if path is not None:  # of an earlier start
            with contextlib.suppress(OSError):
                os.unlink(path)

    def tell(
        self, node: Node, http_port: int | None, control_url: str | None = None, registry_urls: Sequence[str] = ()
    ) -> None:
        """Write the line; a failure is only logged."""
        self.write(
            {
                "ready": True,
                "listeners": node.bound.addresses,
                "bound": node.bound.listeners,
                "controllers": [f"{address.host}:{address.port}" for address in node.bound.controllers],
                "cluster": node.cluster.id,
                "http": http_port,
                "http_host": node.local.config.string("odradek.http.host"),
                "control": control_url,
                "registry": list(registry_urls),
                "pid": os.getpid(),
            }
        )

    def write(self, values: Mapping[str, object]) -> None:
        """Write a line with these values; a failure is only logged."""
        line = json.dumps(values) + "\n"
        if self._descriptor is not None:
            try:
                with os.fdopen(self._descriptor, "w", closefd=self._descriptor > process.STDERR) as stream:
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


def _run(loop: str, begin: Callable[[], Coroutine[Any, Any, int]]) -> None:
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if loop != "asyncio":
        try:
            import uvloop

            factory = uvloop.new_event_loop
        except ImportError:
            if loop == "uvloop":
                click.echo("wrong configuration: odradek.loop = 'uvloop': uvloop is not installed", err=True)
                sys.exit(1)
    with asyncio.Runner(loop_factory=factory) as runner:
        status = runner.run(begin())
    logging.flush_last_lines()
    _leave(status)


def _seams(
    config: BrokerConfig, loop: asyncio.AbstractEventLoop, workers: ThreadWorkers, tell: Callable[[str], None]
) -> Seams:
    """The machine's clock and files; with a control interface, a clock and files that a test can move and break."""
    clock: Clock = SystemClock(loop)
    files: FileSystem = OsFileSystem() if config.syncs else UnsyncedFileSystem()
    if config.string("odradek.control").strip():
        from broker.faults.power_failure import PowerFailureFiles
        from timing.adjustable_clock import AdjustableClock

        clock, files = AdjustableClock(clock), PowerFailureFiles(files)
    return Seams(clock, files, workers, random.SystemRandom(), tell=tell)


async def _serve(loaded: Loaded, tracebacks: logging.Tracebacks, ready: Ready, parent: Parent | None) -> int:
    loop = asyncio.get_running_loop()
    # What is never synced is flushed at once.
    workers = ThreadWorkers(loop, on_the_loop=() if loaded.config.syncs else ("flush ",))
    systemd = Systemd(os.environ, SystemClock(loop))
    seams = _seams(loaded.config, loop, workers, systemd.note)
    logging.log_loop_exceptions(loop)
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as in a JVM; nohup ignores it
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    if parent is not None:
        parent.watch(loop, stop)
    descriptors, allowed = process.allow_many_descriptors()
    if descriptors != allowed:
        logger.debug("open file limit raised", before=descriptors, now=allowed)
    process.reuse_freed_memory()
    process.share_the_interpreter()
    try:
        check_export(loaded.config)
        control = _control_server(loaded.config)
        registry = _registry_server(loaded.config)
        make_console = _console_maker(loaded.config)
        systemd.starting()
        starting = asyncio.ensure_future(start_node(loaded.config, loaded.listeners, seams))
        if not await process.unless_stopped(starting, stop, seams.clock.machine, START_PATIENCE_MS):
            logger.warning("stopped during startup; the next start recovers the logs again")
            _leave(1)
    except (
        OtlpError,
        ListenError,
        SecurityError,
        LogDirError,
        RegistrationError,
        PeerError,
        KafkaError,
        OSError,
    ) as error:
        logger.error("cannot start", error=str(error))
        return 1
    node = starting.result()
    _count_tracebacks(node, tracebacks)
    if not await _live(node, loaded.config, seams, ready, control, registry, make_console, systemd, stop):
        return 1
    return await _stop(node, workers)


def _control_server(config: BrokerConfig) -> ControlServer | None:
    """The control interface's, imported if the configuration asks for it. Raises ListenError."""
    address = control_address(config)
    if address is None:
        return None
    from broker.testkit.control import ControlServer

    return ControlServer(*address, config.optional_string("odradek.control.token"))


def _registry_server(config: BrokerConfig) -> RegistryServer | None:
    """The schema registry's, imported if the configuration asks for it. Raises ListenError."""
    if not config.is_broker or not config.list_("schema.registry.listeners"):
        return None
    from broker.registry.server import RegistryServer, addresses

    return RegistryServer(addresses(config))


def _registry_host(node: Node, server: RegistryServer | None, *, for_tests: bool) -> RegistryHost | None:
    """The node's schema registry; None where nobody asks for one, or ever can."""
    if server is None and not (for_tests and node.local.config.is_broker):
        return None
    from broker.registry.host import RegistryHost

    return RegistryHost(node, server)


def _console_maker(config: BrokerConfig) -> Callable[[Node], Console] | None:
    """Return what makes the console, imported if there is to be one, and before the node has anybody to answer."""
    if not config.boolean("odradek.console") or config.integer("odradek.http.port") < 0:
        return None
    from broker.console import Console

    return Console


def _count_tracebacks(node: Node, tracebacks: logging.Tracebacks) -> None:
    """Each is a bug."""
    node.local.metrics.counter(
        "odradek_unhandled_exceptions_total",
        "Log lines with a traceback: exceptions that no code expected, each of which is a bug.",
        (),
        lambda: tracebacks.count,
        permanent=True,
    )


async def _live(
    node: Node,
    config: BrokerConfig,
    seams: Seams,
    ready: Ready,
    control: ControlServer | None,
    registry: RegistryServer | None,
    make_console: Callable[[Node], Console] | None,
    systemd: Systemd,
    stop: asyncio.Event,
) -> bool:
    """Serve until the process is told to stop, or the node cannot go on; False if a port cannot be served."""
    GcTime().begin(node.local.metrics)
    console = None if make_console is None else make_console(node)
    host = _registry_host(node, registry, for_tests=control is not None)
    try:
        http_port = await node.serve_http(None if console is None else console.answer)
        if host is not None:
            await host.begin_configured()
    except (ListenError, SecurityError) as error:
        logger.error("cannot start", error=str(error))
        await node.stop()
        return False
    operator_requests.begin(node)
    process.Survivors().exempt()
    control_url = None if control is None else control.url
    ready.tell(node, http_port, control_url, [] if host is None else host.urls)
    if control is not None:
        control.begin(node)
    if console is not None and http_port is not None:
        console.begin()
    keeping = asyncio.ensure_future(asyncio.to_thread(compiled.keep))
    systemd.ready(f"serves at {', '.join(node.bound.addresses.values())}")
    export = OtlpExport.of(config, node.local.metrics, seams.clock.machine)
    if export is not None:
        export.begin()
    await process.first_of(stop, node.state.unusable)
    systemd.stopping()
    await keeping
    await asyncio.to_thread(compiled.keep)  # what requests had compiled
    if export is not None:
        await export.stop()
    if console is not None:
        await console.stop()
    if control is not None:
        await control.stop()
    if host is not None:
        await host.stop()
    return True


async def _stop(node: Node, workers: ThreadWorkers) -> int:
    """Stop the node, and return the exit status; if threads are still busy after a while, end the process at once."""
    stopped = await node.stop()
    status = 0 if stopped is Stopped.CLEAN and not node.state.unusable.is_set() else 1
    clock = node.local.clock.machine
    deadline_ms = clock.monotonic_ms() + LAST_WORK_MS
    while workers.is_busy and clock.monotonic_ms() < deadline_ms:
        await clock.sleep(10)
    if workers.is_busy:
        _leave(status)
    workers.close()
    return status


def _leave(status: int) -> NoReturn:
    """End the process at once: the interpreter would wait for its threads, which may hang in a read."""
    logging.flush_last_lines()
    atexit._run_exitfuncs()
    os._exit(status)
