"""`odradek snapshot save|load` and `odradek backup create|restore`: keep the state of a running broker, or go back."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from odradek.control import ControlClient, ControlError

TOKEN = "ODRADEK_CONTROL_TOKEN"


def main(arguments: Sequence[str], program: str = "odradek snapshot", save: str = "save", load: str = "load") -> int:
    """Run the command; the exit status is 1 if the broker refuses, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        program,
        description="Keep the state of a running broker in a folder of its machine, or go back to it. "
        "Clients stay connected. A broker that is new begins with it if odradek.snapshot names it.",
    )
    parser.add_argument("action", choices=(save, load))
    parser.add_argument("path", help=f"its folder; {save} makes it")
    parser.add_argument("--control", required=True, metavar="URL", help="http://HOST:PORT of the control interface")
    parser.add_argument("--token", default=os.environ.get(TOKEN), help=f"odradek.control.token; or set {TOKEN}")
    options = parser.parse_args(arguments)
    path = os.path.abspath(options.path)
    try:
        control = ControlClient(options.control, options.token)
    except ValueError as error:
        parser.error(f"--control: {error}")
    try:
        if options.action == save:
            saved = control.post("/snapshots", path=path)
            sys.stdout.write(f"{saved['path']}: {saved['bytes']} bytes\n")
        else:
            control.post("/snapshots/restore", path=path)
    except ControlError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    finally:
        control.close()
    return 0
