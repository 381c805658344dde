"""The options of commands that ask the control interface of a running broker: its address, and its token."""

from __future__ import annotations

import argparse
import os

from odradek.control import ControlUnavailableError

CONTROL, TOKEN = "ODRADEK_CONTROL", "ODRADEK_CONTROL_TOKEN"
"""The environment variables of the broker's settings `odradek.control` and `odradek.control.token`."""
DEFAULT = "127.0.0.1:9405"


def add_to(parser: argparse.ArgumentParser) -> None:
    """Give the parser `--control` and `--token`."""
    parser.add_argument(
        "--control",
        metavar="HOST:PORT",
        type=_url,
        default=os.environ.get(CONTROL) or DEFAULT,
        help=f"the broker's control interface (odradek serve --control); default ${CONTROL}, or {DEFAULT}",
    )
    parser.add_argument("--token", default=os.environ.get(TOKEN), help=f"its odradek.control.token; default ${TOKEN}")


def _url(address: str) -> str:
    return address if "://" in address else f"http://{address}"


def sentence(error: Exception) -> str:
    """What is said about an error of the control interface."""
    if isinstance(error, ControlUnavailableError):
        return f"{error} (a broker has it with odradek serve --control {DEFAULT}; --control HOST:PORT names another)"
    return str(error)
