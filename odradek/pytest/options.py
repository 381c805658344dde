"""The options for the broker from pytest's command line, its configuration and a test's marker."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from odradek.control import ControlClient
from odradek.security import Security, acl_settings
from odradek.starting import require_profile

INI_SETTINGS = "odradek_settings"
INI_START_TIMEOUT = "odradek_start_timeout"
INI_PYTHON = "odradek_python"
XDIST = "workerinput"
"""The attribute that pytest-xdist gives the configuration of its workers."""


@dataclass(frozen=True, slots=True)
class Options:
    """The session's settings; or where the broker runs, if it runs elsewhere.

    Attributes:
        bootstrap: `host:port` of a broker that runs elsewhere.
        control: the URL of its control interface.
        shared: other processes of the test run use the same broker.
        cold: no broker is a fork of a process that has loaded everything (`odradek/warm.py`).
        start_timeout: how long a broker or a cluster may take to start, in seconds; None for what the kit allows.
        python: the interpreter of another environment that runs the brokers; None for the tests' own.
    """

    settings: dict[str, str] = field(default_factory=dict)
    bootstrap: str | None = None
    control: str | None = None
    token: str | None = None
    shared: bool = False
    cold: bool = False
    start_timeout: float | None = None
    python: str | None = None

    @classmethod
    def add(cls, parser: pytest.Parser) -> None:
        """Declare the options."""
        parser.addini(INI_SETTINGS, "key=value lines in server.properties names, for odradek_broker", type="linelist")
        parser.addini(INI_START_TIMEOUT, START_TIMEOUT_HELP)
        parser.addini(INI_PYTHON, PYTHON_HELP)
        group = parser.getgroup("odradek", "Odradek, a Kafka broker")
        group.addoption("--odradek-set", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)
        group.addoption("--odradek-start-timeout", metavar="SECONDS", help=START_TIMEOUT_HELP)
        group.addoption("--odradek-python", metavar="PATH", help=PYTHON_HELP)
        group.addoption("--odradek-cold", action="store_true", help=COLD_HELP)
        group.addoption("--odradek-bootstrap", metavar="HOST:PORT", help="Use the broker that runs there.")
        group.addoption("--odradek-control", metavar="URL", help="Its control interface, http://HOST:PORT.")
        group.addoption("--odradek-control-token", metavar="TOKEN", help="What odradek.control.token is there.")

    @classmethod
    def of(cls, config: pytest.Config) -> Options:
        """The options as given. Raises UsageError for wrong ones."""
        settings = dict(_setting(INI_SETTINGS, line) for line in config.getini(INI_SETTINGS))
        given = [_setting("--odradek-set", text) for text in config.getoption("--odradek-set")]
        bootstrap, control = config.getoption("--odradek-bootstrap"), config.getoption("--odradek-control")
        if bootstrap is not None:
            _require_address(bootstrap)
        if control is not None:
            _require_url(control)
        elsewhere = bootstrap is not None or control is not None
        if given and elsewhere:
            raise pytest.UsageError("--odradek-set: a broker that runs elsewhere has its own settings")
        return cls(
            {**settings, **dict(given)},
            bootstrap,
            control,
            config.getoption("--odradek-control-token"),
            shared=elsewhere and hasattr(config, XDIST),
            cold=config.getoption("--odradek-cold"),
            start_timeout=_start_timeout(config),
            python=_python(config),
        )

    def of_start(self) -> dict[str, Any]:
        """The parameters of `Broker` and `Cluster` that these options have for all that is started."""
        found = {"start_timeout": self.start_timeout, "python": self.python, "warm": not self.cold}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def elsewhere(self) -> bool:
        """Whether the broker runs elsewhere."""
        return self.bootstrap is not None or self.control is not None

    def require_own(self, what: str) -> None:
        """Skip the test if the broker runs elsewhere, where this cannot be done."""
        if self.elsewhere:
            pytest.skip(f"{what}, and --odradek-bootstrap names one that runs elsewhere")


SET_HELP = "A setting of the brokers, in server.properties names; may be repeated, and wins over odradek_settings."

COLD_HELP = "Start each broker as a program of its own, never as a fork of a process that has loaded everything."

START_TIMEOUT_HELP = "How long a broker may take to start, in seconds (default 30; a cluster 60): for a busy machine."


PYTHON_HELP = (
    "The Python of an environment that has odradek, in which brokers run: the tests' own needs none of theirs."
)


def _python(config: pytest.Config) -> str | None:
    for where, text in (
        ("--odradek-python", config.getoption("--odradek-python")),
        (INI_PYTHON, config.getini(INI_PYTHON)),
    ):
        if text:
            if shutil.which(text) is None:
                raise pytest.UsageError(f"{where} = {text!r}: expected the path of a Python interpreter")
            return str(text)
    return None


def _start_timeout(config: pytest.Config) -> float | None:
    for where, text in (
        ("--odradek-start-timeout", config.getoption("--odradek-start-timeout")),
        (INI_START_TIMEOUT, config.getini(INI_START_TIMEOUT)),
    ):
        if text:
            return require_seconds(where, text)
    return None


def require_seconds(where: str, given: object) -> float:
    """A number of seconds above 0, or a text of one. Raises UsageError."""
    try:
        seconds = math.nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise pytest.UsageError(f"{where} = {given!r}: expected a number of seconds above 0")
    return seconds


def _setting(where: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise pytest.UsageError(f"{where}: {text!r} is not key=value")
    return key.strip(), value.strip()


def _require_address(text: str) -> None:
    for word in text.split(","):
        host, _, port = word.rpartition(":")
        if not host or not port.isdecimal():
            raise pytest.UsageError(f"--odradek-bootstrap: {text!r} is not HOST:PORT")


def _require_url(text: str) -> None:
    try:
        ControlClient(text)
    except ValueError as error:
        raise pytest.UsageError(f"--odradek-control: {error}") from error


MARKER = "odradek"
MARKER_LINE = (
    "odradek(topics, settings, brokers, profile, security, users, acls): topics that the test finds ({name: "
    "partitions}, or a list of names); the number of brokers, with which odradek is a cluster; the others are those of "
    "odradek.Broker, and with one of them it is another than the session's"
)
OF_BROKER = ("profile", "security", "users", "acls")
"""The parts of a marker about the broker besides its settings, named as the parameters of `Broker` and `Cluster`."""

ACCEPTED = ("topics", "settings", "brokers", *OF_BROKER)


@dataclass(frozen=True, slots=True)
class MarkerOptions:
    """The wishes of the markers of a test; the nearest one wins. `topics` has the parameters of `Controls.topic`.

    `options` are parameters of `Broker`; `brokers` is 0 if no marker says how many.
    """

    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    brokers: int = 0

    @classmethod
    def of(cls, item: pytest.Item) -> MarkerOptions:
        """Read the markers of a test. A wrong one fails the test."""
        wanted = cls()
        try:
            for marker in reversed(list(item.iter_markers(MARKER))):
                wanted = wanted._with(marker)
            wanted._check()
        except pytest.UsageError as error:
            pytest.fail(f"{item.nodeid}: @pytest.mark.odradek: {error}", pytrace=False)
        return wanted

    def _with(self, marker: pytest.Mark) -> MarkerOptions:
        """Add the wishes of a marker that is nearer. Raises UsageError."""
        expected = ", ".join(f"{name}=" for name in ACCEPTED)
        if marker.args:
            raise pytest.UsageError(f"{marker.args[0]!r} has no name: expected {expected}")
        for name in marker.kwargs:
            if name not in ACCEPTED:
                raise pytest.UsageError(f"there is no {name}=: expected {expected}")
        self.topics.update(topics_of(marker.kwargs.get("topics", {}), "topics"))
        self.settings.update(_settings(marker.kwargs.get("settings", {})))
        self.options.update({name: marker.kwargs[name] for name in OF_BROKER if name in marker.kwargs})
        return replace(self, brokers=_brokers(marker.kwargs["brokers"])) if "brokers" in marker.kwargs else self

    def _check(self) -> None:
        """Raises UsageError."""
        try:
            if "profile" in self.options:
                require_profile(self.options["profile"])
            if self.options.get("acls") is not None:
                acl_settings(self.options["acls"])
            Security.chosen(self.options.get("security"), self.options.get("users"), self.settings, Path())
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(str(error)) from error

    @property
    def needs_own(self) -> bool:
        """Whether the session's broker will not do."""
        return bool(self.settings or self.options)


def _brokers(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise pytest.UsageError(f"brokers = {given!r}: expected how many, 1 or more")
    return given


def topics_of(given: object, where: str) -> dict[str, dict[str, Any]]:
    """By name, the parameters of `Controls.topic`. Raises UsageError."""
    if isinstance(given, str):
        return {given: {}}
    if isinstance(given, Mapping):
        return {_name(name, where): _parameters(name, value, where) for name, value in given.items()}
    if isinstance(given, Iterable):
        return {_name(name, where): {} for name in given}
    raise _wrong(f"{where} = {given!r}")


def _name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise _wrong(f"{where}: {name!r}")
    return name


def _parameters(name: object, value: object, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"partitions": value}
    if isinstance(value, Mapping) and set(value) <= {"partitions", "configs"}:
        return dict(value)
    raise _wrong(f"{where}: {name!r}: {value!r}")


def _wrong(what: str) -> pytest.UsageError:
    expected = '{"name": partitions}, {"name": {"partitions": 3, "configs": {...}}}, or a list of names'
    return pytest.UsageError(f"{what}: expected {expected}")


def _settings(given: object) -> dict[str, object]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise pytest.UsageError(f'settings = {given!r}: expected {{"num.partitions": 3}}')
    return dict(given)
