"""Warm starts: a process, the template, has loaded all that nodes need, and a node is a fork of it within milliseconds.

The first broker of a process is started plain, as most need but one; the template comes with the second, or with a
cluster. It ends with this process. The node's side, and what is said between them, is in `broker/template.py`.

Where a fork is not safe, or fails, brokers are started plain; `why_plain` says why.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from odradek import location

READY = 3
"""The descriptor for the ready line in a forked node; `broker/forked.py` knows it too."""

FIXED_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "COV")
"""The prefixes of variables that count when a process begins: with others the template is not what a node would be."""

LINE_BYTES = 4096
LOG_CHARACTERS = 500


class NoForkError(Exception):
    """The template did not fork a node; with `for_good` it never will."""

    def __init__(self, why: str, *, for_good: bool) -> None:
        super().__init__(why)
        self.for_good = for_good


class ForkedNode:
    """A node's process, which is the template's child; it is used as `subprocess.Popen` is.

    Its exit status is looked at without being taken: a process that this one has forked may look too.
    """

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                said = self._line.recv(LINE_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            # Without a word the template has been killed, and the node with it.
            self.returncode = json.loads(said)["status"] if said else -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if (status := self.poll()) is not None:
            return status
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.poll(None if timeout is None else timeout * 1000)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(["odradek", "serve"], timeout or 0.0)
        return status

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def close(self) -> None:
        """Forget a node that has ended."""
        self._line.close()


class Template:
    """A process that has loaded what nodes need, as long as this process lives, or until it is closed.

    With `together` its first nodes will be asked for at the same time.
    """

    def __init__(self, environment: Mapping[str, str], *, together: bool = False) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._nodes: list[ForkedNode] = []
        with theirs:
            self._process = subprocess.Popen(
                location.command(["template", str(theirs.fileno()), *(["together"] if together else [])]),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env=location.environment(dict(environment)),
            )

    @property
    def lives(self) -> bool:
        """Whether it is there; one that is being killed has closed its socket before its end is to be seen."""
        closed = select.poll()
        closed.register(self._control, 0)
        return self._process.poll() is None and not closed.poll(0)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int, ready: int, timeout: float
    ) -> ForkedNode:
        """Start a node whose ready line goes to `ready`, and return once it has a process. Raises NoForkError."""
        line, theirs = socket.socketpair()
        request = {"arguments": list(arguments), "environment": dict(environment), "umask": _umask()}
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with theirs:
                socket.send_fds(self._control, [b"n"], [theirs.fileno(), log, ready, folder])
            line.settimeout(timeout)
            line.sendall(json.dumps(request).encode() + b"\n")
            node = ForkedNode(line, _pid(line))
            line.shutdown(socket.SHUT_WR)
            line.settimeout(None)
        except OSError as error:
            line.close()  # then a node of which the template was about to say the process id is killed
            why = f"the template process failed: {error}; {self._last_line()}"
            raise NoForkError(why, for_good=not self._nodes and not isinstance(error, TimeoutError)) from error
        except BaseException:
            line.close()
            raise
        finally:
            os.close(folder)
        self._nodes.append(node)
        return node

    def close(self) -> None:
        """Fork no more; the process ends once its nodes have, at once if none runs."""
        with contextlib.suppress(OSError):  # it was killed
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        self._log.close()
        if all(node.poll() is not None for node in self._nodes):
            self._process.kill()  # it may be loading something
            self._process.wait()

    def _last_line(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return f"it said: {lines[-1][:LOG_CHARACTERS]}" if lines else "it said nothing"


def _pid(line: socket.socket) -> int:
    """Take the first line that the template says, and no more. Raises NoForkError, OSError."""
    first = line.recv(LINE_BYTES, socket.MSG_PEEK)
    if not first:
        raise ConnectionResetError("it has ended")
    said = json.loads(line.recv(first.index(b"\n") + 1))
    if "pid" not in said:
        raise NoForkError(said["refused"], for_good=True)
    pid: int = said["pid"]
    return pid


def _umask() -> int:
    """Read it: `os.umask` would change it for a moment, for all threads."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


class Warm:
    """Decides how the brokers of this process are started, and keeps the template.

    Attributes:
        why_plain: why brokers are started plain though more than one was; None if there is no reason.
    """

    def __init__(self) -> None:
        self.why_plain = None if sys.platform == "linux" else f"a fork is safe on Linux alone, not on {sys.platform}"
        self._lock = threading.Lock()
        self._several = self._together = False
        self._template: Template | None = None
        self._made_for: object = None

    @property
    def template(self) -> Template | None:
        """The process of which the next node is a fork, if there is one by now."""
        return self._template

    def expect_several(self) -> None:
        """Note that more than one node is about to be started at once, so that the first one is a fork too."""
        self._several = self._together = True

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int, ready: int, timeout: float
    ) -> ForkedNode | None:
        """Start a node warm; None if it is to be started plain. `timeout` is in seconds."""
        with self._lock:
            first, self._several = not self._several, True
            template = None if first or self.why_plain else self._fitting(environment)
        if template is None:
            return None
        try:
            return template.fork(arguments, environment, log, ready, timeout)
        except NoForkError as error:
            if error.for_good:
                self.why_plain = str(error)
            return None

    def _fitting(self, environment: Mapping[str, str]) -> Template:
        """The template, or a new one if it was killed, or is not what a process begun now would be."""
        fixed = {name: value for name, value in environment.items() if name.startswith(FIXED_AT_START)}
        made_for = (fixed, list(sys.path))
        if self._template is None or not self._template.lives or made_for != self._made_for:
            self.close()
            self._template = Template(environment, together=self._together)
            self._made_for = made_for
        return self._template

    def close(self) -> None:
        """End the template; its nodes go on, and the next start makes another one."""
        template, self._template = self._template, None
        if template is not None:
            template.close()

    def forget(self) -> None:
        """Begin anew in a forked child: the template is its parent's."""
        self._lock = threading.Lock()
        _OF_PARENTS.append(self._template)  # closing it would end it for the parent
        self._template = None


_OF_PARENTS: list[Template | None] = []

WARM = Warm()
"""That of this process."""

atexit.register(WARM.close)
os.register_at_fork(after_in_child=WARM.forget)
