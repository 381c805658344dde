"""Writes docs/apis.md from the rows and the schema: `python -m protocol.api.document > docs/apis.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .. import schema
from . import messages
from .row import WHEN_OFF, Api
from .shape import selectors_of
from .table import API_TABLE, CONTROLLER_ONLY, OWN_TABLE

_INTRODUCTION = """\
# APIs

<!-- Written by `python -m protocol.api.document`; do not edit. -->

Every request of Kafka's protocol that a broker answers, made from the table that the broker itself obeys
(`protocol/api/table.py`). What each needs of the authorizer, with the errors, is in [ACLs](acls.md); where the answers
differ from Kafka's, in [compatibility](compatibility.md).

- **decided by**: who gives the answer. What a controller decides, a broker whose controllers are other nodes sends on.
- **needs**: the operations of which a client needs one, on what. In brackets: without it the answer is smaller.
- **writes**: the log that the request appends to. Faults of the test kit may strike after that, and before the sync.
- **faults select by**: what a fault of the test kit may name, so that it strikes only requests about that.
- **w**: the answer may wait, as long as the request says. **t**: the answer says how long the client is throttled.
"""

_HEADER = """\
| key | API | versions | decided by | needs | writes | faults select by | | notes |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""

_OWN = """
## Our own

They are for the `odradek` command; other clients do not see them in ApiVersions.
"""

_CONTROLLER = """
## Between the nodes of a cluster

A controller answers these on its own listener, and Fetch of the metadata.
"""

_WAITS = ("max_wait", "timeout", "rebalance_timeout")


def document() -> str:
    """The page."""
    lines = [_INTRODUCTION, _HEADER, *map(row, API_TABLE), _OWN, _HEADER, *map(row, OWN_TABLE)]
    return "\n".join([*lines, _CONTROLLER, _HEADER, *map(row, CONTROLLER_ONLY)]) + "\n"


def row(api: Api) -> str:
    """The line of one API."""
    by = {"broker": "the broker", "both": "each node", "decides": "a controller", "controller": "the controller"}
    cells = (
        str(api.key),
        api.kafka_name,
        f"{api.lowest}-{api.highest}",
        by[api.place],
        "; ".join(_needs(api)),
        api.writes,
        "" if api.before_login or api.place == "controller" else ", ".join(selectors_of(api)),
        _marks(api),
        "; ".join(_notes(api)),
    )
    return f"| {' | '.join(cells)} |"


def _needs(api: Api) -> Iterator[str]:
    for right in api.rights:
        text = f"{' or '.join(right.operations)}: {right.what}"
        yield f"({text})" if right.shows_less else text


def _marks(api: Api) -> str:
    asked = {plan.name for plan in schema.field_plans(messages.newest_request(api))}
    answered = {plan.name for plan in schema.field_plans(messages.newest_response(api))}
    waits = not asked.isdisjoint(_WAITS)
    return " ".join(["w"] * waits + ["t"] * ("throttle_time" in answered))


def _notes(api: Api) -> Iterator[str]:
    if api.advertised_lowest != api.lowest:
        yield f"advertised from {api.advertised_lowest}, as Kafka does"
    if not api.advertised:
        yield "advertised once metrics of clients are subscribed to; in Kafka, where a receiver plugin is"
    if WHEN_OFF.get(api.feature):
        yield f"{WHEN_OFF[api.feature]} where {api.feature} is off"


if __name__ == "__main__":
    sys.stdout.write(document())
