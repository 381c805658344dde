"""The table from API to checks: it knows every API, and the page of the docs is written from it."""

from __future__ import annotations

from pathlib import Path

from broker.authorization.document import document
from broker.authorization.table import CHECKS, CONTROLLER_CHECKS, DECIDED_BY_CONTROLLER
from protocol.api.table import API_TABLE, CONTROLLER_ONLY, CONTROLLER_TABLE, OWN_TABLE

ROOT = Path(__file__).parents[4]


def test_every_api_has_a_row() -> None:
    served = {api.name for api in (*API_TABLE, *OWN_TABLE)}
    assert CHECKS.keys() == served
    assert CONTROLLER_CHECKS.keys() == served | {api.name for api in CONTROLLER_ONLY}


def test_what_only_nodes_ask_a_controller_needs_a_right() -> None:
    assert all(CONTROLLER_CHECKS[api.name] for api in CONTROLLER_ONLY)


def test_what_the_controller_decides_can_be_sent_to_it() -> None:
    sent = {api.name for api in CONTROLLER_TABLE}
    assert DECIDED_BY_CONTROLLER - sent <= {"add_raft_voter", "remove_raft_voter"}


def test_the_committed_page_is_what_the_table_gives() -> None:
    assert (ROOT / "docs/acls.md").read_text() == document()
