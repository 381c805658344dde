"""What the command line and the configuration of pytest say of the broker."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from odradek.control import ControlClient

INI_SETTINGS = "odradek_settings"
XDIST = "workerinput"
"""The attribute that pytest-xdist gives the configuration of its workers."""


@dataclass(frozen=True, slots=True)
class Options:
    """The session's settings; or where the broker runs, if it runs elsewhere.

    Attributes:
        bootstrap: `host:port` of a broker that runs elsewhere.
        control: the URL of its control interface.
        shared: other processes of the test run use the same broker.
    """

    settings: dict[str, str] = field(default_factory=dict)
    bootstrap: str | None = None
    control: str | None = None
    token: str | None = None
    shared: bool = False

    @classmethod
    def add(cls, parser: pytest.Parser) -> None:
        """Declare the options."""
        parser.addini(INI_SETTINGS, "key=value lines in server.properties names, for odradek_broker", type="linelist")
        group = parser.getgroup("odradek", "Odradek, a Kafka broker")
        group.addoption("--odradek-set", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)
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
