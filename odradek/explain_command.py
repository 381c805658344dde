"""`odradek explain`: ask a running broker why a consumer gets nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from odradek import control_option
from odradek.control import ControlError
from odradek.controls import RemoteBroker

KINDS = {"group": "group", "topic": "topic", "transaction": "transactional_id"}
"""What a broker explains, and the name of its parameter."""
WITHOUT_BROKER = ("error", "setting")
"""What is explained by the broker's program (`odradek/__main__.py`)."""


def _arguments(given: Sequence[str]) -> list[str]:
    """`--group NAME` and `--group=NAME` mean `group NAME`, as they did before."""
    options = {f"--{parameter.replace('_', '-')}": kind for kind, parameter in KINDS.items()}
    found: list[str] = []
    for one in given:
        option, has_value, value = one.partition("=")
        kind = options.get(option)
        found += [one] if kind is None else [kind, value] if has_value else [kind]
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the explanation. The exit status is 1 if it has a problem, 2 if the broker cannot be asked."""
    parser = argparse.ArgumentParser(
        prog="odradek explain",
        description="Why a consumer gets nothing, and what to do. With -b HOST:PORT it is a client of a cluster, of "
        "Odradek or any other Kafka (`odradek explain -b HOST:PORT --help`); else it asks the control interface of a "
        "broker. `explain error NAME` and `explain setting NAME` say what these mean.",
    )
    parser.add_argument("kind", choices=[*KINDS, *WITHOUT_BROKER], help="what is asked about")
    parser.add_argument("name", help="its name; of a transaction, the transactional id")
    parser.add_argument("--json", action="store_true", help="print JSON")
    control_option.add_to(parser)
    options = parser.parse_args(_arguments(arguments))
    if options.kind in WITHOUT_BROKER:
        parser.error(f"`odradek explain {options.kind} NAME` asks no broker, and has no options")
    try:
        broker = RemoteBroker("", options.control, token=options.token)
        found = broker.explain(**{KINDS[options.kind]: options.name})
    except (ControlError, ValueError) as error:
        sys.stderr.write(f"Error: {control_option.sentence(error)}\n")
        return 2
    sys.stdout.write(f"{json.dumps(found.as_json, indent=2) if options.json else found}\n")
    return 1 if found.problems else 0
