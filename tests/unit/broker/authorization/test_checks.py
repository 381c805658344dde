"""The table from API to checks: it knows every API, and the page of the docs is written from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.authorization import names
from broker.authorization.document import document
from broker.authorization.guard import ERRORS, checks_of
from metadata.acls import ResourceType
from protocol.api.row import Api
from protocol.api.table import API_BY_KEY, CONTROLLER_ONLY

ROOT = Path(__file__).parents[4]


every_api = pytest.mark.parametrize("api", API_BY_KEY.values(), ids=lambda api: api.name)


@every_api
def test_the_rights_of_an_api_can_be_checked(api: Api) -> None:
    """Each names what the authorizer knows, and the schema or a rule finds the resources."""
    for rights in (api.rights, api.rights_of_nodes or ()):
        checked = list(checks_of(api, rights))
        assert len(checked) == sum(right.how != "handler" or bool(right.rule or right.in_turns) for right in rights)
        assert all(callable(getattr(names, right.rule)) for right in rights if right.rule)
        assert all(ResourceType[name] in ERRORS for right in rights for name in (right.on, *right.more))


def test_what_only_nodes_ask_a_controller_needs_a_right() -> None:
    assert all(api.rights for api in CONTROLLER_ONLY)


def test_the_committed_page_is_what_the_table_gives() -> None:
    assert (ROOT / "docs/acls.md").read_text() == document()
