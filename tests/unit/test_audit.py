"""What `make audit` makes of pip-audit's answers."""

from __future__ import annotations

from tools.audit import verdict

GOOD = {"name": "click", "version": "8.1.0", "vulns": []}
SKIPPED = {"name": "kio", "skip_reason": "not found"}


def test_a_known_weakness_fails() -> None:
    weak = {"name": "pyjwt", "version": "2.3.0", "vulns": [{"id": "PYSEC-2022-202"}]}
    assert verdict([GOOD, weak, SKIPPED]) == (1, "pyjwt 2.3.0: PYSEC-2022-202")


def test_without_advisories_it_is_said_that_nothing_was_audited() -> None:
    assert verdict([SKIPPED]) == (2, "no advisories can be reached: none of 1 packages was audited")


def test_what_could_not_be_audited_is_counted() -> None:
    assert verdict([GOOD, SKIPPED]) == (0, "no known weakness in 1 packages; 1 could not be audited")
