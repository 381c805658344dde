"""The page about chaos is a test file: it passes as it is printed; and a failing test shows its schedule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Broker
from odradek.chaos.schedule import KINDS, Event, Value, text_of
from tests.client.plugin_runs import run
from tests.pages import blocks

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("own_cluster")

PAGE = "docs/testing-chaos.md"


def test_the_page_passes_as_it_is_printed(tmp_path: Path) -> None:
    code = "\n\n".join(blocks(PAGE, "python"))
    (tmp_path / "test_page.py").write_text(code)
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert f"{code.count('def test_')} passed" in done.stdout, done.stdout + done.stderr


def test_a_failing_test_shows_what_was_played(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_after_the_block(odradek):
            with odradek.chaos(schedule="0 clock_jumps seconds=5\\n0 rebalances pick=0.5\\n60 stalls lasts=1") as chaos:
                while len(chaos.played) < 2:
                    pass
            assert False

        def test_next(odradek):
            assert False
        """,
    )
    result.assert_outcomes(failed=2)
    first, _, second = result.stdout.str().partition("test_next")
    assert "play it again with odradek.chaos(schedule='''\n0 clock_jumps seconds=5\n" in first
    assert (
        "0 rebalances pick=0.5  # not done: there are no groups with members\n60 stalls lasts=1  # not played\n"
        in first
    )
    assert "play it again" not in second


@pytest.mark.timeout(120)
def test_every_kind_is_played_and_nothing_of_it_stays() -> None:
    values: dict[str, dict[str, Value]] = {
        "lost_replies": {"api": "Fetch"},
        "lost_requests": {"api": "EndTxn"},
        "clock_jumps": {"seconds": 5},
        "slow_disks": {"delay": 0.1, "lasts": 0.2},
        "stalls": {"lasts": 0.1},
        "crashes": {"lasts": 0.2},
    }
    events = [Event(at / 10, kind, values.get(kind, {})) for at, kind in enumerate(KINDS)]
    events.append(Event(2, "lost_replies", {"api": "OffsetCommit"}))
    with Broker() as broker:
        with broker.chaos(schedule=text_of(events)) as chaos:
            chaos.wait(100)
            assert [fault.active for fault in broker.faults] == [True]
        assert chaos.is_over
        outcomes = {event.kind: outcome for event, outcome in chaos.played}
        assert {kind for kind, outcome in outcomes.items() if outcome} == {"expired_sessions", "rebalances"}
        assert broker.running
        assert broker.faults == []


def test_a_cluster_moves_leaders_and_starts_what_it_killed() -> None:
    from odradek import Cluster

    with Cluster(brokers=2) as cluster:
        topic = cluster.topic("orders", partitions=2)
        cluster.wait_in_sync(timeout=60)
        before = cluster.leader(topic, 0)
        with cluster.chaos(schedule="0 leader_moves pick=0.1") as chaos:
            chaos.wait(60)
        assert cluster.leader(topic, 0) not in (None, before)
        with cluster.chaos(schedule="0 crashes pick=0.9 lasts=0.1") as crash:
            crash.wait(60)
        assert [outcome for _, outcome in (*chaos.played, *crash.played)] == ["", ""]
        assert cluster.whole
