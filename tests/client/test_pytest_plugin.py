"""The pytest plugin as a user's suite has it: each fixture, option and marker, in runs of pytest of their own."""

from __future__ import annotations

import pytest

from odradek import Broker
from tests.client.plugin_runs import run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("own_cluster")


def test_a_test_finds_its_broker_as_it_was_whatever_the_one_before_left_open(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import datetime

        import pytest
        from confluent_kafka import Consumer, Producer

        left = []

        @pytest.fixture(scope="module")
        def kept(odradek_broker):
            return odradek_broker.topic("kept", partitions=2)

        def test_one(odradek, kept, odradek_client_config):
            kept.produce(b"stays")
            config = odradek_client_config("confluent")
            producer = Producer(config | {"transactional.id": "tx"})
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce("made-by-a-client", b"open")
            producer.flush(10)
            consumer = Consumer(config | {"group.id": "readers", "auto.offset.reset": "earliest"})
            consumer.subscribe(["kept"])
            assert consumer.poll(10).value() == b"stays"
            left.extend([producer, consumer])
            odradek.clock.advance(hours=1)
            odradek.clock.freeze()
            assert set(odradek.topics()) == {"kept", "made-by-a-client"}

        def test_two(odradek):
            assert list(odradek.topics()) == ["kept"]
            assert [record.value for record in odradek.topics()["kept"].records()] == [b"stays"]
            assert odradek.transactions() == {}
            assert not odradek.clock.frozen
            assert abs(odradek.clock.now() - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=1)
            left.clear()

        def test_three(odradek):
            assert odradek.groups() == {}
        """,
    )
    result.assert_outcomes(passed=3)


def test_topics_of_fixtures_and_of_the_marker(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        pytestmark = pytest.mark.odradek(topics=["logs"])

        compact = {"partitions": 1, "configs": {"cleanup.policy": "compact"}}

        @pytest.mark.odradek(topics={"orders": 3, "compact": compact})
        def test_marker(odradek_topics, odradek):
            assert {name: topic.partitions for name, topic in odradek_topics.items()} == {
                "logs": 1, "orders": 3, "compact": 1
            }
            assert odradek.topics().keys() == odradek_topics.keys()
            more = odradek_topics("more", partitions=2, configs={"retention.ms": 1000})
            assert (more, more.partitions) == ("more", 2)
            assert odradek_topics({"a": 4, "b": None}, partitions=5)["b"].partitions == 5
            assert odradek_topics["a"].partitions == 4

        def test_topic_is_a_name_as_well_as_a_topic(odradek_topic, odradek, odradek_client_config):
            from confluent_kafka import Producer

            assert odradek_topic.startswith("test_topic_is_a_name_as_well_as_a_topic-")
            producer = Producer(odradek_client_config("confluent"))
            producer.produce(odradek_topic, b"v")
            producer.flush(10)
            assert odradek_topic.wait(1)[0].value == b"v"

        @pytest.mark.parametrize("odd", ["a/b c", "ä"])
        def test_name_of_a_parameter(odradek_topic, odd):
            odradek_topic.produce(b"v")

        def test_the_marker_needs_no_fixture(odradek_bootstrap):
            from confluent_kafka.admin import AdminClient

            assert "logs" in AdminClient({"bootstrap.servers": odradek_bootstrap}).list_topics(timeout=10).topics
        """,
    )
    result.assert_outcomes(passed=5)


def test_settings_of_the_marker_have_a_broker_that_equal_ones_share(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        pids = {}

        def test_session(odradek):
            pids["session"] = odradek.pid
            assert odradek.topic("t").partitions == 4

        @pytest.mark.odradek(settings={"num.partitions": 7, "message.max.bytes": 5000})
        def test_first(odradek, odradek_topics):
            pids["own"] = odradek.pid
            assert odradek.topic("t").partitions == 7

        @pytest.mark.odradek(settings={"message.max.bytes": "5000", "num.partitions": 7})
        def test_second(odradek, odradek_client_config):
            assert odradek.pid == pids["own"] != pids["session"]
            assert odradek_client_config("java")["bootstrap.servers"] == odradek.bootstrap_servers
            assert odradek.topics() == {}

        @pytest.mark.parametrize("number", range(5))
        def test_many(odradek, number, request):
            assert odradek.pid == pids["session"]

        def test_fresh(odradek_fresh_broker):
            assert odradek_fresh_broker.pid not in pids.values()
            assert odradek_fresh_broker.topic("t").partitions == 4
            odradek_fresh_broker.kill()
        """,
        "--odradek-set",
        "num.partitions=4",
    )
    result.assert_outcomes(passed=9)


def test_the_options_win_over_the_configuration_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nodradek_settings =\n  num.partitions=2\n  message.max.bytes=5000\n")
    result = run(
        pytester,
        """
        from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

        def test_it(odradek_broker, odradek_bootstrap):
            admin = AdminClient({"bootstrap.servers": odradek_bootstrap})
            (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
            found = future.result(10)
            names = ("num.partitions", "message.max.bytes", "odradek.profile", "offsets.topic.num.partitions")
            assert [found[name].value for name in names] == ["3", "5000", "test", "1"]
        """,
        "--odradek-set=num.partitions=3",
    )
    result.assert_outcomes(passed=1)


def test_every_worker_of_xdist_has_its_own_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os

        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(odradek, odradek_topic, number):
            with open(os.environ["PIDS"], "a") as file:
                file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {odradek.pid}\\n")
            odradek_topic.produce(b"v")
            assert len(odradek.topics()) == 1
        """
    )
    pids = pytester.path / "pids"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIDS", str(pids))
        result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "load")
    result.assert_outcomes(passed=6)
    seen = {tuple(line.split()) for line in pids.read_text().splitlines()}
    assert len(seen) == len({worker for worker, _ in seen}) == len({pid for _, pid in seen}) == 2


def test_fixtures_of_ones_own(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_other(small_broker, odradek_broker, small):
            assert small is small_broker
            assert small_broker.pid != odradek_broker.pid
            assert small.topic("t").partitions == 9

        def test_clean(small, small_broker):
            assert small.topics() == {}

        pids = []

        def test_new_one(each):
            pids.append(each.pid)

        def test_another_new_one(each):
            assert each.pid not in pids
        """,
        conftest="""
        from odradek.pytest import factories

        small_broker = factories.broker("small_broker", settings={"num.partitions": 9}, scope="module")
        small = factories.clean("small", of="small_broker")
        each = factories.broker("each", scope="function")
        """,
    )
    result.assert_outcomes(passed=4)


def test_a_broker_elsewhere(pytester: pytest.Pytester, shared_broker: Broker) -> None:
    kept = shared_broker.topic("kept-elsewhere")
    source = f"""
    import pytest

    def test_it(odradek, odradek_topic, odradek_bootstrap, odradek_broker):
        assert odradek.status()["pid"] == {shared_broker.pid}
        assert odradek_bootstrap == odradek_broker.bootstrap_servers == "{shared_broker.bootstrap_servers}"
        odradek.topic("made-by-the-test")

    def test_clean(odradek):
        assert "kept-elsewhere" in odradek.topics()
        assert "made-by-the-test" not in odradek.topics()

    def test_fresh(odradek_fresh_broker):
        raise AssertionError("skipped")

    @pytest.mark.odradek(settings={{"num.partitions": 3}})
    def test_settings(odradek):
        raise AssertionError("skipped")
    """
    where = ["--odradek-bootstrap", shared_broker.bootstrap_servers, "--odradek-control", shared_broker.control.url]
    run(pytester, source, *where, "-rs").assert_outcomes(passed=2, skipped=2)
    run(pytester, source, *where[2:]).assert_outcomes(passed=2, skipped=2)
    kept.delete()


def test_a_broker_elsewhere_without_control_has_an_address_alone(pytester: pytest.Pytester) -> None:
    source = """
    def test_address(odradek_bootstrap):
        assert odradek_bootstrap == "kafka.example:9092"

    def test_control(odradek):
        pass
    """
    result = run(pytester, source, "--odradek-bootstrap", "kafka.example:9092")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*--odradek-control URL is missing*"])


def test_a_broker_that_died_fails_the_test_and_the_next_has_a_new_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import os
        import signal
        import time

        address = []

        def die(broker):
            pid = broker.pid
            os.kill(pid, signal.SIGKILL)
            while broker.running:
                time.sleep(0.01)

        def test_dies(odradek):
            odradek.topic("lost")
            address.append(odradek.bootstrap_servers)
            die(odradek)

        def test_next(odradek, odradek_bootstrap):
            assert odradek.running
            assert [odradek_bootstrap] == address
            assert odradek.topics() == {}

        def test_dies_and_fails(odradek):
            die(odradek)
            assert odradek.status()

        def test_dies_and_is_started_again(odradek):
            die(odradek)
            odradek.restart()

        def test_is_killed(odradek):
            odradek.kill()

        def test_last(odradek):
            assert odradek.running
        """,
    )
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["the broker at 127.0.0.1:* died, exit status -9 (SIGKILL); its log ends with*"])
    result.stdout.fnmatch_lines(["*ControlUnavailableError*", "*odradek: the broker died*"])


def test_an_unknown_client_is_refused(shared_broker: Broker) -> None:
    with pytest.raises(ValueError, match="kind = 'sarama': expected one of aiokafka, confluent, kafka-python, java"):
        shared_broker.client_config("sarama")


def test_faults_are_removed_and_a_crash_that_was_asked_for_is_no_failure(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from confluent_kafka import Producer

        def test_fault(odradek):
            odradek.fault("Metadata", error="BROKER_NOT_AVAILABLE")

        def test_crash(odradek, odradek_topic):
            assert odradek.faults == []
            odradek.fault("Produce", then="crash")
            producer = Producer(odradek.client_config("confluent"))
            producer.produce(odradek_topic, b"v")
            while odradek.running:
                producer.poll(0.01)

        def test_crash_that_may_come_while_all_is_cleaned(odradek, odradek_topic):
            odradek.crash(at="before_fsync", topic=odradek_topic)
            odradek_topic.produce("v")
            Producer(odradek.client_config("confluent")).produce(odradek_topic, b"v")

        def test_next(odradek):
            assert odradek.running
            assert odradek.topics() == {}
            assert odradek.faults == []
        """,
    )
    result.assert_outcomes(passed=4)
