"""The processes of `serve --brokers N`: forks of this one, which has loaded all that a node needs, or new programs.

The forks are made before this process has a loop, a thread or a log. Each waits for its arguments on its line, a socket
that is its standard input from then on, and the pipe of its ready line. So it ends with this process, if it waits too.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from broker import forked
from broker.process import ENVIRONMENT, STDIN

DEPENDENCIES = "ODRADEK_DEPENDENCIES"
"""See odradek/launcher.py, which takes it out of this process's environment."""


class Process(Protocol):
    """What the supervisor needs of a node's process: of one of asyncio's, or of a fork."""

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Fork:
    """A forked child: it waits until `begin`, and then is a node."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.line = line
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None

    async def begin(self, arguments: Sequence[str], log: Path) -> asyncio.StreamReader:
        """Let it be a node with these arguments of `serve`; returned is where it writes its ready line."""
        loop = asyncio.get_running_loop()
        watch = os.pidfd_open(self.pid)

        def ended() -> None:
            loop.remove_reader(watch)
            os.close(watch)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self._ended.set()

        loop.add_reader(watch, ended)
        reader, self._writer = await asyncio.open_connection(sock=self.line)
        self._writer.write(json.dumps({"arguments": list(arguments), "log": str(log)}).encode() + b"\n")
        return reader

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def fork_waiting(count: int, serve: Callable[[list[str]], Any]) -> list[Fork]:
    """Fork so many children, each of which will call `serve` with its arguments."""
    forks: list[Fork] = []
    sys.stdout.flush()
    gc.collect()
    gc.freeze()
    for _ in range(count):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            own = theirs.detach()
            for line in (ours, *(fork.line for fork in forks)):
                line.detach()  # `keep` closes them
            _serve_when_asked(own, serve)
        theirs.close()
        forks.append(Fork(pid, ours))
    return forks


def _serve_when_asked(line: int, serve: Callable[[list[str]], Any]) -> NoReturn:
    """Be a node, once it is said which; end if the supervisor does before."""
    os.setpgid(0, 0)  # Ctrl-C is for the supervisor
    forked.keep(line, 1, 2)
    text = b""
    while not text.endswith(b"\n"):
        part = os.read(STDIN, 65536)
        if not part:
            os._exit(0)
        text += part
    own = json.loads(text)
    log = _open_log(own["log"])
    forked.keep(STDIN, log, log, STDIN)
    forked.take_environment(_environment())
    arguments = [*own["arguments"], "--ready-fd", str(forked.READY)]
    sys.argv[1:] = ["serve", *arguments]
    serve(arguments)
    os._exit(0)


async def launch(arguments: Sequence[str], log_path: Path) -> tuple[Process, asyncio.StreamReader]:
    """Start a node as a new program; also returned is where it writes its ready line."""
    read_end, write_end = os.pipe()
    log = _open_log(log_path)
    try:
        process = await asyncio.create_subprocess_exec(
            *_program(),
            "serve",
            *arguments,
            "--ready-fd",
            str(write_end),
            stdin=asyncio.subprocess.PIPE,  # it ends with this process
            stdout=log,
            stderr=log,
            pass_fds=(write_end,),
            process_group=0,  # Ctrl-C reaches this process alone
            env=_environment() | {DEPENDENCIES: os.pathsep.join(sys.path)},
        )
    finally:
        os.close(write_end)
        os.close(log)
    return process, await _reader_of(read_end)


def _open_log(path: str | Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _environment() -> dict[str, str]:
    """That of a node: it has nothing of systemd, which knows this process alone."""
    return {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}


def _program() -> list[str]:
    """The command of this process up to `serve`."""
    command = list(sys.orig_argv)
    return command[: command.index("serve")]


async def _reader_of(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb"))
    return reader
