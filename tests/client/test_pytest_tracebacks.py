"""What a user of the pytest plugin is shown when a test fails, or a fixture does."""

from __future__ import annotations

import pytest

from tests.client.plugin_runs import run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("own_cluster")


def test_tracebacks_end_at_the_users_line(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        def test_wait(odradek_topic):
            odradek_topic.wait(timeout=0)

        def test_where(odradek_topic):
            odradek_topic.wait(where=bool, timeout=0)

        def test_expect(odradek_topic):
            odradek_topic.expect(b"x", timeout=0)

        @pytest.mark.asyncio
        async def test_async(odradek):
            await odradek.group("g").wait_async(members=1, timeout=0)

        def test_refused(odradek):
            odradek.fault(api="Prodcue", error=7)

        def test_wrong_type(odradek_topic):
            odradek_topic.produce(7)

        def test_exactly_once(odradek):
            source, sink = odradek.topic("source"), odradek.topic("sink")
            source.produce("a", key="1")
            odradek.assert_exactly_once(source, sink, timeout=0)

        def test_gone(odradek):
            odradek.kill()
            odradek.status()

        def test_ones_own(odradek_topic):
            def where(record):
                return record.json()["id"] == 1
            odradek_topic.produce({"name": "x"})
            odradek_topic.wait(where=where, timeout=0)
        """,
    )
    result.assert_outcomes(failed=9)
    raised_by_the_kit, _, by_the_user = result.stdout.str().partition("test_ones_own __")
    assert "odradek/" not in raised_by_the_kit  # no line of a file of the kit
    assert "odradek/topic.py" in by_the_user  # on the way to the user's own function
    result.stdout.fnmatch_lines(["E*KeyError: 'id'"])


def test_a_fixture_that_fails_says_why_without_a_traceback(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.odradek(settings={"num.partitions": "many"})
        def test_settings(odradek): ...

        @pytest.mark.odradek(topics={"no name": 1})
        def test_topics(odradek): ...

        @pytest.fixture
        def users(odradek):
            return odradek.topic("t", partitions=0)

        def test_users_fixture(users): ...
        """,
    )
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_settings*",
            "BrokerStartError: the broker ended before it was ready",
            "wrong configuration: num.partitions = 'many'*",
            "*ERROR at setup of test_topics*",
            "ControlError: INVALID_TOPIC_EXCEPTION: *",
            "*ERROR at setup of test_users_fixture*",
            '>*return odradek.topic("t", partitions=0)',
            "E*ControlError: partitions = 0: expected at least 1",
        ]
    )
    result.stdout.no_fnmatch_line("*pluggy*")


def test_a_test_that_closes_the_shared_broker_leaves_a_new_one_to_the_next(pytester: pytest.Pytester) -> None:
    source = """
        def test_closes(odradek):
            odradek.topic("t")
            odradek.close()

        def test_next(odradek):
            assert odradek.topics() == {}
            with odradek_as_its_own(odradek):
                pass

        def odradek_as_its_own(broker):
            broker.stop()
            return broker

        def test_next_again(odradek):
            assert odradek.topics() == {}
        """
    run(pytester, source).assert_outcomes(passed=3)


def test_the_full_trace_is_shown_on_demand(pytester: pytest.Pytester) -> None:
    source = "def test_wait(odradek_topic):\n    odradek_topic.wait(timeout=0)\n"
    assert "odradek/" not in run(pytester, source).stdout.str()
    run(pytester, source, "--full-trace").stdout.fnmatch_lines(
        ["*/odradek/topic.py:*", "*def send(self, *", "*/odradek/control.py:*: WaitTimeoutError"]
    )
