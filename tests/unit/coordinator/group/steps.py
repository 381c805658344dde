"""Steps that tests of the group share: groups brought into a state, and answers looked at."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from tests.unit.coordinator.group.rig import COMPLETING, STABLE, Client, Rig

T = TypeVar("T")


def answer_of(future: Future[T]) -> T:
    """The answer, which must be there; an error is raised."""
    assert future.done(), "no answer yet"
    return future.result()


def refused(future: Future[Any]) -> ErrorCode:
    """The code of the error with which a request was refused, be it an answer's field."""
    assert future.done(), "no answer yet"
    error = future.exception()
    if error is None:
        result = future.result()
        return result if isinstance(result, ErrorCode) else result.error
    return error.code  # type: ignore[attr-defined, no-any-return]  # a KafkaError


def waits(*futures: Future[Any]) -> bool:
    return not any(future.done() for future in futures)


def assign_all(members: Iterable[Client]) -> dict[str, bytes]:
    """To each a share that names it."""
    return {member.member_id: f"share of {member.member_id}".encode() for member in members}


async def completing(rig: Rig, *members: Client) -> None:
    """A group of these members, the first of them the leader, whose assignments are awaited."""
    joins = [member.join() for member in members]
    await rig.pass_ms(5)
    assert all(answer_of(join).error is ErrorCode.none for join in joins)
    assert rig.group.state is COMPLETING
    assert rig.group.leader_id == members[0].member_id
    rig.states.clear()


async def stable(rig: Rig, *members: Client) -> None:
    """A group of these members, the first of them the leader, in its first generation."""
    await completing(rig, *members)
    followers = [member.sync() for member in members[1:]]
    for answer in (members[0].sync(assign_all(members)), *followers):
        assert answer_of(answer).error is ErrorCode.none
    assert rig.group.state is STABLE
    rig.states.clear()
