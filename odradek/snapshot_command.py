"""`odradek snapshot save|load` and `odradek backup create|restore`: keep the state of a running broker, or go back."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from odradek import control_option
from odradek.control import ControlClient, ControlError


def backup(arguments: Sequence[str]) -> int:
    """Run `odradek backup`; `verify` is the broker's program's (`odradek/__main__.py`)."""
    return main(arguments, "odradek backup", "create", "restore", "verify")


def main(
    arguments: Sequence[str],
    program: str = "odradek snapshot",
    save: str = "save",
    load: str = "load",
    *without_broker: str,
) -> int:
    """Run the command; the exit status is 1 if the broker refuses, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        program,
        description="Keep the state of a running broker in a folder of its machine, or go back to it. "
        "Clients stay connected. A broker that is new begins with it if odradek.snapshot names it.",
    )
    parser.add_argument("action", choices=(save, load, *without_broker))
    parser.add_argument("path", help=f"its folder; {save} makes it")
    control_option.add_to(parser)
    options = parser.parse_args(arguments)
    if options.action in without_broker:
        parser.error(f"`{program} {options.action} PATH` asks no broker, and has no options")
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
            sys.stdout.write(f"{path}: the broker is as it was at that moment\n")
    except ControlError as error:
        sys.stderr.write(f"Error: {control_option.sentence(error)}\n")
        return 1
    finally:
        control.close()
    return 0
