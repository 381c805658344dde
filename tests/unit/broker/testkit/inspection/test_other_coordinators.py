"""What other coordinators are asked for, and how often: lists of groups of a cluster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.peers.leaders import PATIENCE_MS
from broker.testkit import inspection as cluster
from broker.testkit import inspection as remote_transactions
from broker.testkit.inspection import groups as groups_here
from broker.testkit.inspection import remote_groups
from broker.testkit.inspection.groups import GroupSummary
from protocol.errors import CoordinatorLoadInProgress, KafkaError
from tests.doubles.clock import ManualClock, settle


class Coordinators:
    """Three brokers that coordinate groups; this node is 1. `refusing` answer an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.leaders = {0: 1, 1: 2, 2: 3}
        self.refusing = {3}
        self.asked: list[int] = []
        monkeypatch.setattr(groups_here, "list_summaries", lambda _: self.list_at(None, 1))
        monkeypatch.setattr(cluster, "list_groups_at", self.list_at)
        groups = SimpleNamespace(leaders=lambda _: self.leaders)
        self.node: Any = SimpleNamespace(
            node_id=1,
            clock=self.clock,
            coordinators=SimpleNamespace(groups=groups),
            cluster=SimpleNamespace(cache=SimpleNamespace(image=None)),
        )

    async def list_at(self, _: Any, broker_id: int) -> list[GroupSummary]:
        self.asked.append(broker_id)
        if broker_id in self.refusing:
            raise CoordinatorLoadInProgress
        led = [index for index, leader in self.leaders.items() if leader == broker_id]
        return [GroupSummary(f"g{index}", "Empty", "classic", None) for index in led]

    async def begin(self) -> asyncio.Task[cluster.Listed[GroupSummary]]:
        task = asyncio.create_task(cluster.list_summaries(self.node))
        await settle()
        return task


def ids(listed: cluster.Listed[GroupSummary]) -> list[str]:
    return [one.group_id for one in listed.found]


async def test_only_the_coordinators_that_answered_an_error_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    them = Coordinators(monkeypatch)
    listing = await them.begin()
    assert them.asked == [1, 2, 3]
    await them.clock.run(cluster.AGAIN_MS)
    assert them.asked == [1, 2, 3, 3]
    them.refusing.clear()
    await them.clock.run(cluster.AGAIN_MS)
    listed = await listing
    assert (ids(listed), listed.unknown, them.asked) == (["g0", "g1", "g2"], [], [1, 2, 3, 3, 3])


async def test_what_others_told_is_listed_though_one_coordinator_never_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    them = Coordinators(monkeypatch)
    listing = await them.begin()
    await them.clock.run(PATIENCE_MS)
    listed = await listing
    assert ids(listed) == ["g0", "g1"]
    (sentence,) = listed.unknown
    assert sentence.startswith("broker 3 did not tell")
    assert len(them.asked) <= 3 + PATIENCE_MS / cluster.AGAIN_MS


async def test_groups_that_move_to_a_coordinator_that_has_answered_are_listed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    them = Coordinators(monkeypatch)
    listing = await them.begin()
    them.leaders = {0: 1, 1: 1, 2: 2}
    await them.clock.run(cluster.AGAIN_MS)
    listed = await listing
    assert (ids(listed), listed.unknown) == (["g0", "g1", "g2"], [])


# -- describing


class Answers:
    """Answers of a coordinator whose groups have the kind that nobody describes; `error` is that of OffsetFetch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: ErrorCode = ErrorCode.none) -> None:
        self.error = error
        self.most = 0
        self.node: Any = SimpleNamespace(
            cluster=SimpleNamespace(
                peers=SimpleNamespace(reach=None), cache=SimpleNamespace(image=SimpleNamespace(topics=None))
            )
        )
        monkeypatch.setattr(remote_groups, "ask", self.ask)
        monkeypatch.setattr(remote_transactions, "ask", self.ask)

    async def ask(self, _reach: Any, _broker_id: int, request: Any, *, lowest: int) -> Any:
        del lowest
        if hasattr(request, "transactional_ids"):
            self.most = max(self.most, len(request.transactional_ids))
            code = ErrorCode.transactional_id_not_found
            states = [SimpleNamespace(transactional_id=name, error_code=code) for name in request.transactional_ids]
            return SimpleNamespace(transaction_states=states)
        named = request.groups if hasattr(request, "groups") else request.group_ids
        self.most = max(self.most, len(named))
        if not hasattr(request, "require_stable"):
            return SimpleNamespace(groups=[SimpleNamespace(error_code=ErrorCode.group_id_not_found) for _ in named])
        return SimpleNamespace(
            groups=[SimpleNamespace(group_id=one.group_id, topics=(), error_code=self.error) for one in named]
        )


@pytest.mark.parametrize("count", [0, 1, 1001])
async def test_thousands_are_described_some_hundreds_at_a_time(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    answers = Answers(monkeypatch)
    names = [f"n{number}" for number in range(count)]
    views = await remote_groups.describe_groups_at(answers.node, 2, names)
    assert [view.group_id for view in views] == names
    found = await remote_transactions.describe_transactions_at(answers.node, 2, names)
    assert [view.transactional_id for view in found] == names
    assert answers.most == min(count, 500)


@pytest.mark.parametrize("error", [ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress])
async def test_an_error_of_offset_fetch_is_not_told_as_nothing_committed(
    monkeypatch: pytest.MonkeyPatch, error: ErrorCode
) -> None:
    answers = Answers(monkeypatch, error)
    with pytest.raises(KafkaError, match="broker 2 answers") as caught:
        await remote_groups.describe_groups_at(answers.node, 2, ["g"])
    assert caught.value.code is error


async def test_a_group_that_can_have_no_offsets_is_described_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, ErrorCode.group_id_not_found)
    (view,) = await remote_groups.describe_groups_at(answers.node, 2, ["share"])
    assert view.committed == {}
