"""`odradek explain`: ask a running broker why a consumer gets nothing."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from odradek.control import ControlError
from odradek.controls import RemoteBroker

CONTROL, TOKEN = "ODRADEK_CONTROL", "ODRADEK_CONTROL_TOKEN"
"""The environment variables of the broker's settings `odradek.control` and `odradek.control.token`."""
DEFAULT_CONTROL = "127.0.0.1:9405"


KINDS = {"group": "--group", "topic": "--topic", "transaction": "--transactional-id"}


def _as_options(arguments: Sequence[str]) -> list[str]:
    """The arguments; `group NAME` at their start means `--group NAME`."""
    return [KINDS.get(one, one) if number == 0 else one for number, one in enumerate(arguments)]


def main(arguments: Sequence[str]) -> int:
    """Print the explanation. The exit status is 1 if it has a problem, 2 if the broker cannot be asked."""
    parser = argparse.ArgumentParser(
        prog="odradek explain",
        description="Why a consumer gets nothing, and what to do. `explain error NAME` and `explain setting NAME` say "
        "what these mean.",
    )
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--group", help="a consumer group")
    subject.add_argument("--topic", help="a topic")
    subject.add_argument("--transactional-id", help="a transactional id")
    parser.add_argument(
        "--control",
        metavar="URL",
        default=os.environ.get(CONTROL, DEFAULT_CONTROL),
        help=f"the broker's control interface (odradek serve --control); default ${CONTROL}, {DEFAULT_CONTROL}",
    )
    parser.add_argument("--token", default=os.environ.get(TOKEN), help=f"its odradek.control.token (default ${TOKEN})")
    given = parser.parse_args(_as_options(arguments))
    try:
        url = given.control if "://" in given.control else f"http://{given.control}"
        broker = RemoteBroker("", url, token=given.token)
        found = broker.explain(group=given.group, topic=given.topic, transactional_id=given.transactional_id)
    except (ControlError, ValueError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    sys.stdout.write(f"{found}\n")
    return 1 if found.problems else 0
