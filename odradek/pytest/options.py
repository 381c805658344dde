"""What the command line and the configuration of pytest say of the broker."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from odradek.control import ControlClient

INI_SETTINGS = "odradek_settings"
INI_START_TIMEOUT = "odradek_start_timeout"
XDIST = "workerinput"
"""The attribute that pytest-xdist gives the configuration of its workers."""


@dataclass(frozen=True, slots=True)
class Options:
    """The session's settings; or where the broker runs, if it runs elsewhere.

    Attributes:
        bootstrap: `host:port` of a broker that runs elsewhere.
        control: the URL of its control interface.
        shared: other processes of the test run use the same broker.
        start_timeout: how long a broker or a cluster may take to start, in seconds; None for what the kit allows.
    """

    settings: dict[str, str] = field(default_factory=dict)
    bootstrap: str | None = None
    control: str | None = None
    token: str | None = None
    shared: bool = False
    start_timeout: float | None = None

    @classmethod
    def add(cls, parser: pytest.Parser) -> None:
        """Declare the options."""
        parser.addini(INI_SETTINGS, "key=value lines in server.properties names, for odradek_broker", type="linelist")
        parser.addini(INI_START_TIMEOUT, START_TIMEOUT_HELP)
        group = parser.getgroup("odradek", "Odradek, a Kafka broker")
        group.addoption("--odradek-set", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)
        group.addoption("--odradek-start-timeout", metavar="SECONDS", help=START_TIMEOUT_HELP)
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
            start_timeout=_start_timeout(config),
        )

    @property
    def elsewhere(self) -> bool:
        """Whether the broker runs elsewhere."""
        return self.bootstrap is not None or self.control is not None

    def require_own(self, what: str) -> None:
        """Skip the test if the broker runs elsewhere, where this cannot be done."""
        if self.elsewhere:
            pytest.skip(f"{what}, and --odradek-bootstrap names one that runs elsewhere")


SET_HELP = "A setting of the brokers, in server.properties names; may be repeated, and wins over odradek_settings."

START_TIMEOUT_HELP = "How long a broker may take to start, in seconds (default 30; a cluster 60): for a busy machine."


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
    for one in text.split(","):
        host, _, port = one.rpartition(":")
        if not host or not port.isdecimal():
            raise pytest.UsageError(f"--odradek-bootstrap: {text!r} is not HOST:PORT")


def _require_url(text: str) -> None:
    try:
        ControlClient(text)
    except ValueError as error:
        raise pytest.UsageError(f"--odradek-control: {error}") from error
