"""The plugin's marker, options and factories: what they take, and what becomes of a mistake in one."""

from __future__ import annotations

import sys

import pytest

from tests.client.plugin_runs import QUIET, run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.mark.parametrize(
    ("source", "arguments", "told"),
    [
        ("", ["--odradek-set", "x"], "--odradek-set: 'x' is not key=value"),
        ("", ["--odradek-bootstrap", "host"], "--odradek-bootstrap: 'host' is not HOST:PORT"),
        ("", ["--odradek-control", "localhost:1"], "--odradek-control: *expected http://HOST:PORT"),
        (
            "",
            ["--odradek-control", "http://localhost:1", "--odradek-set", "a=b"],
            "--odradek-set: a broker that runs elsewhere has its own settings",
        ),
        ("", ["-o", "odradek_settings=x"], "odradek_settings: 'x' is not key=value"),
        (
            "",
            ["--odradek-start-timeout", "soon"],
            "--odradek-start-timeout = 'soon': expected a number of seconds above 0",
        ),
        ("", ["-o", "odradek_start_timeout=-1"], "odradek_start_timeout = '-1': expected a number of seconds above 0"),
        (
            "@pytest.mark.odradek(topic='t')",
            [],
            "test_it: @pytest.mark.odradek: there is no topic=: expected topics=, *",
        ),
        ("@pytest.mark.odradek('t')", [], "'t' has no name: expected topics=, settings=, *"),
        ("@pytest.mark.odradek(profile='fast')", [], "profile = 'fast': expected one of test, dev, kafka"),
        ("@pytest.mark.odradek(profile=[])", [], "profile = []: expected one of test, dev, kafka"),
        ("@pytest.mark.odradek(security='TLS')", [], "security = 'TLS': expected one of PLAINTEXT, *"),
        ("@pytest.mark.odradek(users={'a': 'b'})", [], "users: expected security='SASL_SSL' with them*"),
        ("@pytest.mark.odradek(security='SASL_SSL', users=7)", [], 'users: expected {"name": "password"}*'),
        ("@pytest.mark.odradek(acls='app READ')", [], "acls = 'app READ': expected a list*"),
        ("@pytest.mark.odradek(brokers=0)", [], "brokers = 0: expected how many, 1 or more"),
        ("@pytest.mark.odradek(brokers='3')", [], "brokers = '3': expected how many, 1 or more"),
        ("", ["--odradek-python", "/no/python"], "--odradek-python = '/no/python': expected the path of a Python *"),
        ("@pytest.mark.odradek(topics=3)", [], "topics = 3: expected {*"),
        ("@pytest.mark.odradek(topics={'t': 'three'})", [], "topics: 't': 'three': expected {*"),
        ("@pytest.mark.odradek(topics=[3])", [], "topics: 3: expected {*"),
        ("@pytest.mark.odradek(settings='a=b')", [], "settings = 'a=b': expected {*"),
        ("@pytest.mark.odradek(settings={'num.partitions': 'x'})", [], "num.partitions = 'x'*"),
        ("@pytest.mark.odradek(topics={'t': 0})", [], "partitions = 0: expected at least 1"),
        (
            "@pytest.mark.odradek(settings={'num.partitions': 1})\n@pytest.mark.usefixtures('odradek_bootstrap')",
            [],
            "odradek_bootstrap is that of the session's broker*",
        ),
    ],
)
def test_wrong_uses(pytester: pytest.Pytester, source: str, arguments: list[str], told: str) -> None:
    pytester.makepyfile(f"import pytest\n\n{source}\ndef test_it():\n    pass\n")
    result = pytester.runpytest_inprocess(*QUIET, *arguments)
    assert result.ret != 0
    assert any(line for line in (*result.outlines, *result.errlines) if "Traceback" in line) is False
    pattern = f"*{told.replace('[', '[[]')}*"
    both = pytest.LineMatcher([*result.outlines, *result.errlines])
    both.fnmatch_lines([pattern])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("broker('b', scope='test')", "scope = 'test': expected one of session, package, module, class, function"),
        ("broker('my broker')", "name = 'my broker': expected the name of the fixture"),
        ("broker('b', start_timeout='soon')", "start_timeout = 'soon': expected a number of seconds above 0"),
        ("cluster('b', profile='fast')", "profile = 'fast': expected one of test, dev, kafka"),
        ("broker('b', profile='fast')", "profile = 'fast': expected one of test, dev, kafka"),
    ],
)
def test_wrong_fixtures_of_ones_own(pytester: pytest.Pytester, wrong: str, told: str) -> None:
    pytester.makepyfile(f"from odradek.pytest import factories\n\nb = factories.{wrong}\n\ndef test_it(b):\n    pass\n")
    result = pytester.runpytest_inprocess(*QUIET)
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*{told}*"])


def test_a_typing_error_in_a_marker_fails_that_test_alone(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.odradek(topic={"orders": 3})
        def test_wrong():
            pass

        @pytest.mark.odradek(setting=[])
        def test_wrong_of_a_cluster(odradek_cluster):
            pass

        def test_right():
            pass
        """,
    )
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(
        ["*::test_wrong: @pytest.mark.odradek: there is no topic=: expected topics=, settings=*"]
    )
    result.stdout.fnmatch_lines(["*::test_wrong_of_a_cluster: @pytest.mark.odradek: there is no setting=: *"])


START_TIMEOUT = """
def test_session(odradek):
    pass

def test_own(patient):
    pass
"""


@pytest.mark.parametrize(
    "arguments",
    [["-o", "odradek_start_timeout=0.001"], ["--odradek-start-timeout", "0.001", "-o", "odradek_start_timeout=60"]],
)
def test_the_start_timeout_is_that_of_the_fixture_the_option_or_the_file(
    pytester: pytest.Pytester, arguments: list[str]
) -> None:
    conftest = """
    from odradek.pytest import factories

    patient = factories.broker("patient", start_timeout=60)
    """
    result = run(pytester, START_TIMEOUT, *arguments, conftest=conftest)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*was not ready within 0.001 s*busy: start_timeout*--odradek-start-timeout*"])


def test_the_marker_says_of_what_kind_the_broker_is(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        pids = []

        @pytest.mark.odradek(security="SASL_PLAINTEXT", users={"app": "pw"}, acls=["app READ TOPIC t"], topics=["t"])
        class TestSecure:
            def test_first(self, odradek, odradek_client_config):
                pids.append(odradek.pid)
                assert odradek_client_config("java")["security.protocol"] == "SASL_PLAINTEXT"
                assert "authorizer.class.name" in odradek._settings

            def test_second_has_the_same_broker(self, odradek):
                assert pids == [odradek.pid]

            @pytest.mark.odradek(users={"app": "other"})
            def test_other_users_have_another_broker(self, odradek):
                assert odradek.pid not in pids

        @pytest.mark.odradek(profile="kafka")
        def test_profile(odradek, odradek_fresh_broker):
            for broker in (odradek, odradek_fresh_broker):
                assert broker._settings["odradek.profile"] == "kafka"
        """,
    )
    result.assert_outcomes(passed=4)


def test_clusters_of_ones_own_are_whole_and_empty_again_for_the_next_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        addresses = []

        def test_breaks(pair, clean_pair):
            assert len(pair.brokers) == 1
            assert clean_pair is pair
            addresses.append(pair.bootstrap_servers)
            pair.topic("t").produce("v")
            pair.isolate(0)
            pair.controller.kill()

        def test_next(clean_pair):
            assert clean_pair.whole
            assert addresses == [clean_pair.bootstrap_servers]
            assert clean_pair.topics() == {}
            clean_pair.topic("t")
            clean_pair.close()

        @pytest.mark.odradek(security="SASL_PLAINTEXT", users={"app": "pw"})
        def test_last(pair, odradek_cluster):
            assert pair.whole
            assert pair.topics() == {}
            assert odradek_cluster.client_config("java")["security.protocol"] == "SASL_PLAINTEXT"
        """,
        conftest="""
        from odradek.pytest import factories

        pair = factories.cluster("pair", brokers=1, settings={"num.partitions": 2}, start_timeout=120)
        clean_pair = factories.clean("clean_pair", of="pair")
        """,
    )
    result.assert_outcomes(passed=3)


def test_a_marker_says_how_many_brokers(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.odradek(brokers=2, topics=["orders"])
        def test_two(odradek, odradek_topic):
            assert len(odradek.brokers) == 2
            assert set(odradek.topics()) == {"orders", odradek_topic}
            test_two.pids = [broker.pid for broker in odradek.brokers]

        @pytest.mark.odradek(brokers=2)
        def test_the_same_two_are_clean(odradek_cluster):
            assert odradek_cluster.topics() == {}
            assert [broker.pid for broker in odradek_cluster.brokers] == test_two.pids

        def test_one(odradek):
            assert not hasattr(odradek, "brokers")
        """,
    )
    result.assert_outcomes(passed=3)


def test_brokers_run_in_the_environment_that_an_option_names(pytester: pytest.Pytester) -> None:
    python = pytester.path / "python-of-the-brokers"
    python.write_text(f'#!/bin/sh\necho "$@" >> {pytester.path}/asked\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    source = """
        def test_it(odradek, odradek_fresh_broker):
            assert odradek.topics() == {}
            assert odradek_fresh_broker.running
    """
    run(pytester, source, "--odradek-python", str(python)).assert_outcomes(passed=1)
    run(pytester, source, "-o", f"odradek_python={python}").assert_outcomes(passed=1)
    asked = (pytester.path / "asked").read_text().splitlines()
    assert [line.split()[:4] for line in asked] == [["-I", "-m", "odradek", "serve"]] * 4
