"""`serve --brokers N`: what is done in place of running a node."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence

import click

from broker.config.broker_config import ConfigurationError
from broker.config.sources import Loaded
from broker.process import Parent, Systemd
from broker.ready import Ready
from broker.supervisor.node_settings import Settings, all_settings
from broker.supervisor.supervisor import Supervisor
from timing.clock import SystemClock


def run(loaded: Loaded, count: int, arguments: Sequence[str], ready: Ready, parent: Parent | None) -> int:
    """Run the nodes, and return the exit status. `arguments` are those of `serve` that every node has.

    The ready line has `nodes`, with the ready line of each broker, and `controller`, with the controller's.
    """
    try:
        settings = all_settings(loaded, count)
    except ConfigurationError as error:
        for problem in error.problems:
            click.echo(f"wrong configuration: {problem}", err=True)
        return 1
    folder = loaded.config.log_dirs[0]
    os.makedirs(folder, exist_ok=True)
    return asyncio.run(_run(settings, folder, arguments, ready, parent))


async def _run(
    settings: Mapping[int, Settings], folder: str, arguments: Sequence[str], ready: Ready, parent: Parent | None
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    if parent is not None:
        parent.watch(loop, stop)
    supervisor = Supervisor(settings, folder, arguments, stop, Systemd(os.environ, SystemClock(loop)))
    return await supervisor.run(
        lambda controller, brokers: ready.write(
            {"ready": True, "nodes": brokers, "controller": controller, "pid": os.getpid()}
        )
    )


def shared_arguments(config_files: Sequence[str], settings: Sequence[str]) -> list[str]:
    """The arguments of `serve` that every node has."""
    files = [part for name in config_files for part in ("--config", os.path.abspath(name))]
    return files + [part for setting in settings for part in ("--set", setting)]
