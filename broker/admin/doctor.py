"""`odradek doctor`: what would keep a broker from running well on this machine."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import click

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.listeners import Listener, Listeners
from broker.config.sources import config_options, load_options

LEAST_FREE = 0.1
LEAST_DESCRIPTORS = 4096
DESCRIPTORS_PER_PARTITION = 4
CONNECT_S = 3.0
LOOPBACK = ("localhost", "127.", "::1")


class Level(Enum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class DoctorFinding(NamedTuple):
    """A thing that was looked at, what was found, and what to do."""

    level: Level
    subject: str
    text: str
    advice: str = ""


SIGNS = {Level.OK: "ok", Level.WARNING: " !", Level.PROBLEM: "!!"}


@click.command("doctor")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(config_files: Sequence[str], settings: Sequence[str], as_json: bool) -> None:
    """Look for what would keep a broker from running well on this machine, with the same settings as `serve`.

    `odradek doctor -b HOST:PORT` looks at a cluster, as its clients here see it. The exit status is 1 for a problem.
    """
    found = _examine(config_files, settings)
    if as_json:
        click.echo(json.dumps([finding._asdict() | {"level": finding.level.value} for finding in found], indent=2))
    else:
        for finding in found:
            advice = f"\n   -> {finding.advice}" if finding.advice else ""
            click.echo(f"{SIGNS[finding.level]} {finding.subject}: {finding.text}{advice}")
    sys.exit(any(finding.level is Level.PROBLEM for finding in found))


def _examine(config_files: Sequence[str], settings: Sequence[str]) -> list[DoctorFinding]:
    try:
        loaded = load_options(config_files, settings)
    except ConfigurationError as error:
        return [DoctorFinding(Level.PROBLEM, "configuration", problem) for problem in error.problems]
    found = [DoctorFinding(Level.WARNING, "configuration", warning) for warning in loaded.warnings]
    return [
        *(found or [DoctorFinding(Level.OK, "configuration", "every setting is known and right")]),
        *folders(loaded.config),
        *limits(loaded.config),
        *clock(loaded.config),
        *ports(loaded.listeners),
        *advertised(loaded.listeners),
    ]


def folders(config: BrokerConfig) -> Iterator[DoctorFinding]:
    """The folders of `log.dirs`: are they there, can they be written, is there room."""
    for path in config.log_dirs:
        above = os.path.abspath(path)
        while not os.path.exists(above):
            above = os.path.dirname(above)
        if not os.path.isdir(above):
            yield DoctorFinding(Level.PROBLEM, path, f"{above} is a file", "name another folder in log.dirs")
        elif not os.access(above, os.W_OK | os.X_OK):
            yield DoctorFinding(Level.PROBLEM, path, f"{above} cannot be written", f"give it to user {os.getuid()}")
        else:
            usage = shutil.disk_usage(above)
            free = usage.free / usage.total
            text = f"{usage.free / 1e9:.1f} GB are free ({free:.0%})"
            if free < LEAST_FREE:
                yield DoctorFinding(Level.WARNING, path, text, "make room, or set log.retention.bytes")
            else:
                yield DoctorFinding(Level.OK, path, text)


def limits(config: BrokerConfig) -> Iterator[DoctorFinding]:
    """Open files that the process may have, beside the partitions that are there."""
    partitions = sum(
        os.path.isdir(os.path.join(path, name))
        for path in config.log_dirs
        if os.path.isdir(path)
        for name in os.listdir(path)
    )
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text = f"{'any number of' if allowed == resource.RLIM_INFINITY else allowed} open files, {partitions} partitions"
    needed = max(LEAST_DESCRIPTORS, DESCRIPTORS_PER_PARTITION * partitions)
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        yield DoctorFinding(Level.WARNING, "limits", text, f"raise the limit (ulimit -Hn, LimitNOFILE=) to {needed}")
    else:
        yield DoctorFinding(Level.OK, "limits", text)


def clock(config: BrokerConfig) -> Iterator[DoctorFinding]:
    """Whether the clock is behind what the folders were written at."""
    written = [os.path.getmtime(path) for path in config.log_dirs if os.path.isdir(path)]
    behind = max(written, default=0.0) - time.time()
    if behind > 1:
        advice = "set the clock: retention, sessions and timestamps go by it"
        yield DoctorFinding(Level.PROBLEM, "clock", f"it is {behind:.0f} s behind the last write to log.dirs", advice)
    else:
        yield DoctorFinding(Level.OK, "clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def ports(listeners: Listeners) -> Iterator[DoctorFinding]:
    """Whether each listener's port is free."""
    for listener in listeners.bound:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        with socket.socket(family) as opened:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                opened.bind((listener.host, listener.port))
            except OSError as error:
                text = f"{error.strerror}; what listens there may be this broker itself"
                yield DoctorFinding(Level.WARNING, str(listener), text, "stop it, or choose another port in listeners")
            else:
                yield DoctorFinding(Level.OK, str(listener), "the port is free")


def advertised(listeners: Listeners) -> Iterator[DoctorFinding]:
    """Whether clients can find the addresses that they are told."""
    everywhere = any(listener.host in ("", "0.0.0.0", "::") for listener in listeners.bound)
    for listener in listeners.advertised:
        if listener.host.startswith(LOOPBACK) and everywhere:
            text = "clients on other machines are told this address, which is their own machine"
            advice = "name the machine in advertised.listeners"
            yield DoctorFinding(Level.WARNING, f"advertised {listener}", text, advice)
        else:
            yield _listener_finding(listener)


def _listener_finding(listener: Listener) -> DoctorFinding:
    subject = f"advertised {listener}"
    host = listener.host or socket.gethostname()
    try:
        addresses = sorted({str(address[4][0]) for address in socket.getaddrinfo(host, listener.port)})
    except OSError as error:
        advice = "name a host in advertised.listeners that clients can look up"
        return DoctorFinding(Level.PROBLEM, subject, f"{host} is not found: {error.strerror}", advice)
    text = f"{host} is {', '.join(addresses)}"
    if listener.port:
        try:
            socket.create_connection((host, listener.port), CONNECT_S).close()
        except OSError as error:
            return DoctorFinding(Level.OK, subject, f"{text}; nothing answers there now ({error.strerror or error})")
        text += "; it answers"
    return DoctorFinding(Level.OK, subject, text)
