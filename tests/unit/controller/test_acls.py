"""CreateAcls and DeleteAcls among many ACLs: what a request is answered, and how many ACLs it is compared with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import immutables
import pytest

from controller import acls
from controller.acls import decide_create, decide_delete
from metadata.acls import AclFilter, PatternType
from metadata.image import MetadataImage
from protocol.errors import InvalidRequest
from protocol.metadata.credentials import AccessControlEntryRecord

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(name: str, user: str = "u", pattern_type: int = LITERAL) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=None,
        resource_type=2,
        resource_name=name,
        pattern_type=pattern_type,
        principal=f"User:{user}",
        host="*",
        operation=3,
        permission_type=3,
    )


def image(some: Iterable[AccessControlEntryRecord]) -> MetadataImage:
    return MetadataImage(acls=immutables.Map({UUID(int=n): replace(one, id=UUID(int=n)) for n, one in enumerate(some)}))


def found(there: MetadataImage, *filters: AclFilter) -> list[list[tuple[str, str]]]:
    deleted = decide_delete(there, filters).response
    return [[(one.resource_name, one.principal.removeprefix("User:")) for one in each.acls] for each in deleted]


THERE = image(
    [acl("a"), acl("a", "v"), acl("b"), acl("a", pattern_type=PREFIXED), acl("", "w", PREFIXED), acl("*", "v")]
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(name="a"), [("a", "u"), ("a", "v"), ("a", "u")]),
        (AclFilter(name="a", pattern_type=PREFIXED), [("a", "u")]),
        (AclFilter(name="ab", pattern_type=PatternType.MATCH), [("", "w"), ("*", "v"), ("a", "u")]),
        (AclFilter(name="a", principal="User:v"), [("a", "v")]),
        (AclFilter(principal="User:v"), [("*", "v"), ("a", "v")]),
        (AclFilter(name="c"), []),
        (AclFilter(principal="User:x"), []),
        (AclFilter(pattern_type=PREFIXED), [("", "w"), ("a", "u")]),
    ],
)
def test_what_a_filter_of_delete_acls_finds(wanted: AclFilter, expected: list[tuple[str, str]]) -> None:
    assert found(THERE, wanted) == [expected]


def test_filters_of_a_name_or_a_principal_are_compared_with_few_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    there = image(acl(f"t{n}", f"u{n}") for n in range(300))
    compared = count()
    matches = AclFilter.matches

    def counting(self: AclFilter, one: Any) -> bool:
        next(compared)
        return matches(self, one)

    monkeypatch.setattr(AclFilter, "matches", counting)
    filters = [AclFilter(name=f"t{n}", pattern_type=LITERAL) for n in range(100)]
    filters += [AclFilter(principal=f"User:u{n}") for n in range(100, 200)]
    assert found(there, *filters) == [[(f"t{n}", f"u{n}")] for n in range(200)]
    assert next(compared) == 200  # 60,000 before


def test_filters_that_must_be_compared_with_all_acls_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MOST_LOOKS", 12)
    nothing = AclFilter(operation=7)
    assert found(THERE, nothing, nothing) == [[], []]
    with pytest.raises(InvalidRequest):
        found(THERE, nothing, nothing, nothing)
    monkeypatch.setattr(acls, "MOST_LOOKS", 1)
    assert found(THERE, nothing) == [[]]  # one may look at all


def test_an_acl_in_the_answers_to_many_filters_counts_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MOST_RECORDS", 12)
    assert [len(each) for each in found(THERE, AclFilter(), AclFilter())] == [6, 6]
    with pytest.raises(InvalidRequest):
        found(THERE, AclFilter(), AclFilter(), AclFilter(name="b"))


def test_an_acl_is_made_once_and_few_of_those_that_exist_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    there = image([*(acl("t", f"u{n}") for n in range(300)), acl("s")])
    copied: list[object] = []

    def copying(one: Any, **changes: Any) -> Any:
        copied.append(one)
        return replace(one, **changes)

    monkeypatch.setattr(acls, "replace", copying)
    asked = [acl("t", "u7"), acl("t", "new"), acl("t", "new"), acl("s", "u7")]
    made = decide_create(there, asked, lambda: UUID(int=7))
    assert made.response == [None] * 4
    assert [(one.resource_name, one.principal) for one in made.records] == [("t", "User:new"), ("s", "User:u7")]
    assert len(copied) == 2  # those that are made


@pytest.mark.parametrize(
    ("host", "refused"),
    [("10.0.0.5/8", False), ("2001:db8::/32", False), ("::/0", False), ("localhost", False), ("10.0.0.1/33", True),
     ("10.0.0.0/", True), ("10.0.0.0/-1", True), ("10.0.0.0/255.0.0.0", True), ("localhost/8", True), ("/", True)],
)  # fmt: skip
def test_a_host_with_a_slash_must_be_a_network(host: str, refused: bool) -> None:
    (error,) = decide_create(image([]), [replace(acl("a"), host=host)], uuid4).response
    assert (error is not None) is refused
    if error is not None:
        assert "is no network" in error.message
