"""A broker in a process of its own, started and controlled from here."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from odradek import location
from odradek.clock import Snapshot
from odradek.control import ControlClient
from odradek.controls import SecuredControls
from odradek.security import Security, Users, acl_settings
from odradek.starting import (
    FOR_TESTS,
    SECRET_SETTINGS,
    Entered,
    as_list,
    first_state,
    make_workplace,
    properties_text,
    remove_workplace,
    require_profile,
    secret_file,
)
from odradek.warm import READY, WARM, ForkedNode

LOG_LINES_SHOWN = 30
SETTINGS_IN_ENVIRONMENT = ("KAFKA_", "ODRADEK_", "CLUSTER_ID")
"""The prefixes of environment variables that a broker reads settings from."""


class BrokerStartError(RuntimeError):
    """The broker ended, or was not ready in time; the message contains the end of its log."""


class Broker(SecuredControls, Entered):
    """One broker on loopback, on a port that the system chooses, with a temporary data folder unless one is given.

    HTTP is off unless `odradek.http.port` is set (0: a port that the system chooses). The profile "test" makes tests
    fast: no waits, and no syncing of files; "kafka" has Kafka's defaults; any of the `settings` wins over a profile.
    A context manager, plain and async. `settings` are Kafka's `server.properties` names; this process's `KAFKA_*`,
    `ODRADEK_*` and `CLUSTER_ID` variables are not passed on. Data and ports survive `stop`, `kill` and `restart`;
    `close` (the end of the `with` block) removes the temporary folder. When this process dies, the broker ends too;
    Ctrl-C reaches this process alone.

    Attributes:
        title: what messages call it.
    """

    title = "the broker"

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        profile: str = "test",
        data_dir: str | os.PathLike[str] | None = None,
        snapshot: Snapshot | str | os.PathLike[str] | None = None,
        python: str | os.PathLike[str] | None = None,
        start_timeout: float = 30.0,
        stop_timeout: float = 15.0,
        security: str | Security | None = None,
        users: Users | None = None,
        acls: Iterable[str] | None = None,
        warm: bool = True,
    ) -> None:
        """Times are seconds. Nothing is started yet.

        Raises ValueError for an unknown profile, for a folder that `log.dirs` cannot name, for a snapshot that is none,
        and for one with a `data_dir` that has data already.

        With `snapshot` the broker begins with what that has, which may be another broker's.
        `python` is the interpreter of another environment that has odradek: its broker is run, so that the broker's
        dependencies need not fit those of this process.

        `security` is that of its listener: SASL_SSL, SASL_PLAINTEXT, SSL or PLAINTEXT. `users` are passwords by name;
        with SSL, the names that have a certificate. The broker makes its certificates, and `client_config` has what
        clients need. With `acls` users may do what these allow, and nothing else: "app READ,WRITE TOPIC orders-*".

        From the second start in this process on, the broker is a fork of a process that has loaded everything, where
        that can be (`odradek/warm.py`); with `warm=False` it never is.
        """
        require_profile(profile)
        self._workplace = make_workplace()
        self._remove_workplace = weakref.finalize(self, remove_workplace, self._workplace, os.getpid())
        self.data_dir = Path(data_dir).absolute() if data_dir is not None else self._workplace / "data"
        self.log_path = self._workplace / "broker.log"
        defaults = {**FOR_TESTS, "odradek.profile": profile, "log.dirs": str(self.data_dir)}
        defaults |= first_state(snapshot, self.data_dir)
        self._security = Security.chosen(security, users, settings or {}, self._workplace / "tls")
        defaults |= {} if self._security is None else self._security.settings()
        defaults |= {} if acls is None else acl_settings(acls)
        self._settings = defaults | {key: str(value) for key, value in (settings or {}).items()}
        if self._settings["log.dirs"] == str(self.data_dir) and [str(self.data_dir)] != as_list(str(self.data_dir)):
            raise ValueError(f"{str(self.data_dir)!r}: log.dirs has commas between folders, and no space around them")
        self._python = python
        self._may_be_forked = warm and python is None
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._child: subprocess.Popen[bytes] | ForkedNode | None = None
        self._end_expected = False
        self._closed = False
        self._listeners: dict[str, str] = {}
        self._http_port: int | None = None
        self._registry_urls: list[str] = []
        self._control: ControlClient | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener."""
        return next(iter(self.listeners.values()))

    @property
    def listeners(self) -> dict[str, str]:
        """Listener name to the advertised `host:port`, at which clients reach it."""
        if not self._listeners:
            raise RuntimeError("the broker was never started")
        return dict(self._listeners)

    @property
    def http_port(self) -> int | None:
        """The port of `/metrics` and `/healthz`; None if HTTP is off."""
        return self._http_port

    @property
    def registry_urls(self) -> list[str]:
        """Where the schema registry listens: as `schema.registry.listeners` says, or since it was asked for."""
        return list(self._registry_urls)

    def _registry_begun(self, urls: list[str]) -> None:
        if urls and not self._registry_urls:
            self._settings["schema.registry.listeners"] = ",".join(urls)  # of the next start, too
        self._registry_urls = urls

    @property
    def control(self) -> ControlClient:
        if self._control is None:
            raise RuntimeError("the broker has no control interface: it was never started, or odradek.control is empty")
        return self._control

    def _snapshot_folder(self) -> str | None:
        return str(self._workplace / "snapshots" / uuid.uuid4().hex)

    @property
    def running(self) -> bool:
        child = self._child
        return child is not None and child.poll() is None

    def _end_of_process(self) -> Callable[[], bool]:
        child = self._child
        return lambda: child is None or child.poll() is not None

    @property
    def warm(self) -> bool:
        """Whether it is a fork of the template: False for one that was started plain, or does not run."""
        return isinstance(self._child, ForkedNode)

    @property
    def died(self) -> bool:
        """Whether it ended though nobody asked it to, and was not started again."""
        child = self._child
        return child is not None and not self._end_expected and child.poll() is not None

    def _expect_end(self) -> None:
        self._end_expected = True

    @property
    def may_end(self) -> bool:
        """Whether a crash was asked for since it was started: it may come at any moment."""
        return self._end_expected

    def last_words(self) -> str:
        """How a broker that is not running ended, and the end of its log."""
        status = None if self._child is None else self._child.poll()
        return f"{self.title} at {self.bootstrap_servers} died, {_ending(status)}; its log ends with\n{self._log_end()}"

    @property
    def pid(self) -> int:
        """The process id of the running broker; RuntimeError if it is not running."""
        child = self._child
        if child is None or child.poll() is not None:
            raise RuntimeError("the broker is not running")
        return child.pid

    def log(self) -> str:
        """Everything that the broker has logged so far, across all its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> Self:
        """Start it, and return once it accepts connections. Raises BrokerStartError if it ends or takes too long."""
        if self.running:
            raise RuntimeError("the broker is running already")
        self._check_open()
        self._discard()
        self._end_expected = False
        self.data_dir.mkdir(parents=True, exist_ok=True)
        read_end, write_end = os.pipe()
        try:
            with self.log_path.open("ab") as log:
                self._child = self._launch(log.fileno(), write_end)
            os.close(write_end)
            write_end = -1
            self._check_open()
            self._note_ready(_read_line(read_end, self._start_timeout))
        except BaseException:
            self._discard()
            if self._closed:
                remove_workplace(self._workplace, os.getpid())
            raise
        finally:
            os.close(read_end)
            if write_end >= 0:
                os.close(write_end)
        return self

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status: 0 after a clean shutdown. On a hang, SIGKILL and TimeoutError."""
        child = self._child
        if child is None:
            raise RuntimeError("the broker is not running")
        child.terminate()
        try:
            status = child.wait(self._stop_timeout)
        except subprocess.TimeoutExpired:
            self._discard()
            raise TimeoutError(f"the broker did not stop within {self._stop_timeout} s\n{self._log_end()}") from None
        self._discard()
        return status

    def kill(self) -> None:
        """Send SIGKILL: the broker gets no chance to flush or to shut down."""
        if self._child is None:
            raise RuntimeError("the broker is not running")
        self._discard()

    def restart(self) -> Self:
        """Start again with the same data and port; stop first if it is running."""
        if self.running:
            self.stop()
        return self.start()

    def start_anew(self) -> Self:
        """Start again with nothing in its folder, on the same port; kill it first if it is running.

        Raises RuntimeError for a `data_dir` that was given.
        """
        self.empty()
        return self.start()

    def empty(self) -> None:
        """Kill it if it is running, and remove its data. Raises RuntimeError for a `data_dir` that was given."""
        if self.data_dir != self._workplace / "data":
            raise RuntimeError(f"{self.data_dir} was given to the broker, and is not emptied")
        self._discard()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def close(self) -> None:
        """Stop the broker for good if it is running, and remove the temporary folder (never a given `data_dir`)."""
        self._closed = True  # before anything else: another thread may be about to start it again
        try:
            if self.running:
                self.stop()
        finally:
            self._discard()
            self._remove_workplace()

    def _launch(self, log: int, ready: int) -> subprocess.Popen[bytes] | ForkedNode:
        """Begin the process, warm if it may be. Raises BrokerStartError."""
        arguments = self._arguments()
        own = self._environment()
        if self._may_be_forked:
            node = WARM.start([*arguments, "--ready-fd", str(READY)], own, log, ready, self._start_timeout)
            if node is not None:
                return node
        command = location.command([*arguments, "--ready-fd", str(ready)], self._python)
        if shutil.which(command[0]) is None:
            raise BrokerStartError(f"{command[0]} is no program: `python` is the path of a Python interpreter")
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(ready,),
            process_group=0,  # or Ctrl-C would stop it while this process, in a debugger, say, still needs it
            env=location.environment(own) if self._python is None else own,
        )

    def _environment(self) -> dict[str, str]:
        return {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS_IN_ENVIRONMENT)}

    def _arguments(self) -> list[str]:
        arguments = ["serve", "--exit-with-parent"]
        arguments += ["--remove-with-parent", str(self._workplace)]
        secret = {key: value for key, value in self._settings.items() if key.endswith(SECRET_SETTINGS)}
        if secret:
            file = secret_file(self._workplace, "secret.properties", properties_text(secret))
            arguments += ["--config", str(file)]
        for key in self._settings.keys() - secret.keys():
            arguments += ["--set", f"{key}={self._settings[key]}"]
        return arguments

    def _note_ready(self, line: bytes | None) -> None:
        if not line:
            why = self._why_not_ready() if line is None else "ended before it was ready"
            raise BrokerStartError(f"the broker {why}\n{self._advice()}{self._log_end()}")
        self._served(json.loads(line))

    def _served(self, ready: Mapping[str, Any]) -> None:
        """Note that the broker serves; `ready` is what it has said of itself."""
        self._listeners = ready["listeners"]
        self._http_port = ready["http"]
        self._control = self._control_client(ready["control"])
        # The next start uses the ports that this one was given.
        if self._http_port is not None:
            self._settings["odradek.http.port"] = str(self._http_port)
        self._settings["listeners"] = ready["bound"]
        self._registry_begun(ready.get("registry", []))

    def _control_client(self, url: str | None) -> ControlClient | None:
        if self._control is not None:
            self._control.close()
        return None if url is None else ControlClient(url, self._settings.get("odradek.control.token"))

    def _why_not_ready(self) -> str:
        used_s = None if self._child is None else _cpu_time_s(self._child.pid)
        cpu = "" if used_s is None else f"; it was given {used_s:.2f} s of CPU time meanwhile"
        return (
            f"was not ready within {self._start_timeout:g} s{cpu}. The machine may be busy: start_timeout gives it "
            "longer (of the pytest plugin: --odradek-start-timeout)"
        )

    def _advice(self) -> str:
        if self._python is None or "No module named odradek" not in self._log_end():
            return ""
        return f"{self._python} has no odradek: {self._python} -m pip install /path/to/odradek\n"

    def _log_end(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_LINES_SHOWN:])

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the broker was closed")

    def _discard(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            child.kill()
        child.wait()
        if isinstance(child, ForkedNode):
            child.close()
        elif child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()


def _cpu_time_s(pid: int) -> float | None:
    """Read how much CPU time a process has used; None where the system does not say it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        user, system = stat.rpartition(")")[2].split()[11:13]  # a program's name may have spaces
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None


def _ending(status: int | None) -> str:
    if status is None:
        return "killed or stopped"
    if status < 0:
        return f"exit status {status} ({signal.Signals(-status).name})"
    return f"exit status {status}"


def _read_line(descriptor: int, timeout: float) -> bytes | None:
    """One line without its end; empty if the other side closed before a whole line, None if the time (s) ran out."""
    deadline = time.monotonic() + timeout
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while not received.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return None
            chunk = os.read(descriptor, 4096)
            if not chunk:
                return b""
            received += chunk
    return received.rstrip(b"\n")
