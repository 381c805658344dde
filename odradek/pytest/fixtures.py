"""The fixtures of the plugin."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

import pytest

from odradek.cluster.cluster import Cluster
from odradek.control import ControlClient
from odradek.controls import Controls, RemoteBroker
from odradek.process import Broker
from odradek.pytest.options import MarkerOptions, Options, topics_of
from odradek.pytest.pool import cleaned, made_by, pool_of
from odradek.topic import Topic

LONGEST_NAME = 60
CLUSTER_SIZE = 3


class Topics(dict[str, Topic]):
    """The topics of the test's marker by name. Call it for more: `odradek_topics("orders", partitions=3)`."""

    def __init__(self, controls: Controls, made: list[Topic]) -> None:
        super().__init__()
        self._controls = controls
        self._made = made

    @overload
    def __call__(
        self, topics: str, *, partitions: int | None = None, configs: Mapping[str, object] | None = None
    ) -> Topic: ...

    @overload
    def __call__(
        self,
        topics: Mapping[str, Any] | list[str],
        *,
        partitions: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> dict[str, Topic]: ...

    def __call__(
        self,
        topics: str | Mapping[str, Any] | list[str],
        *,
        partitions: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> Topic | dict[str, Topic]:
        """Create a topic, or several ({name: partitions}, or a list of names), and return it, or them by name."""
        shared = {"partitions": partitions, "configs": configs}
        made = {}
        for name, parameters in topics_of(topics, "topics").items():
            made[name] = self._controls.topic(name, **{**shared, **parameters})
            self._made.append(made[name])
        self.update(made)
        return made[topics] if isinstance(topics, str) else made


@pytest.fixture(scope="session")
def odradek_broker(pytestconfig: pytest.Config) -> Iterator[Broker | RemoteBroker]:
    """One broker for the whole session: a process on a free port, or the one of `--odradek-control`."""
    options = Options.of(pytestconfig)
    if options.elsewhere:
        yield _remote(options)
        return
    pool = pool_of(pytestconfig)
    broker = pool.start(options.settings)
    yield broker
    pool.close(broker)


@pytest.fixture(scope="session")
def odradek_bootstrap(request: pytest.FixtureRequest) -> str:
    """`host:port` of the session's broker, for a client's bootstrap servers."""
    given = Options.of(request.config).bootstrap
    if given is not None:
        return given
    bootstrap: str = request.getfixturevalue("odradek_broker").bootstrap_servers
    return bootstrap


@pytest.fixture
def odradek(request: pytest.FixtureRequest) -> Iterator[Controls]:
    """The session's broker for one test, which finds the topics of its marker and leaves nothing behind.

    With anything but `topics` in the marker it is another broker that is so; tests with equal markers share it. With
    `brokers` it is a cluster, as `odradek_cluster` is.
    """
    wanted = MarkerOptions.of(request.node)
    with cleaned(request, _broker_for(request, wanted)) as controls:
        made = made_by(request.node)
        made += [controls.topic(name, **parameters) for name, parameters in wanted.topics.items()]
        yield controls


@pytest.fixture
def odradek_topic(request: pytest.FixtureRequest, odradek: Controls) -> Topic:
    """A topic of the test's own, with one partition, whose name begins with the test's; it is a str as well."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-.")[:LONGEST_NAME]
    topic = odradek.topic(f"{readable}-{uuid.uuid4().hex[:8]}", partitions=1)
    made_by(request.node).append(topic)
    return topic


@pytest.fixture
def odradek_topics(request: pytest.FixtureRequest, odradek: Controls) -> Topics:
    """The topics of the test's marker, by name; called, it creates more, which go with the test."""
    made = made_by(request.node)
    topics = Topics(odradek, made)
    topics.update({topic.name: topic for topic in made})
    return topics


@pytest.fixture
def odradek_fresh_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of the test's own, new and empty: to kill it, say. It is as the session's, and as the marker says."""
    options = Options.of(request.config)
    options.require_own("odradek_fresh_broker starts a broker")
    pool = pool_of(request.config)
    wanted = MarkerOptions.of(request.node)
    broker = pool.start({**options.settings, **wanted.settings}, **wanted.options)
    yield broker
    pool.close(broker)


@pytest.fixture(scope="session")
def odradek_users() -> dict[str, str]:
    """The users of `odradek_secure_broker`, passwords by name. Override it for others."""
    return {"app": "app-secret"}


@pytest.fixture(scope="session")
def odradek_acls() -> list[str] | None:
    """The rights of the users of `odradek_secure_broker`: everything. Override it for ["app READ TOPIC orders"]."""
    return None


@pytest.fixture(scope="session")
def odradek_secure_broker(
    pytestconfig: pytest.Config, odradek_users: dict[str, str], odradek_acls: list[str] | None
) -> Iterator[Broker]:
    """One broker for the whole session to which clients come with TLS and a password (SASL_SSL).

    `odradek_secure_broker.client_config(kind)` is what clients are given. Its certificates are made for it.
    """
    options = Options.of(pytestconfig)
    options.require_own("odradek_secure_broker starts a broker")
    pool = pool_of(pytestconfig)
    broker = pool.start(options.settings, security="SASL_SSL", users=odradek_users, acls=odradek_acls)
    yield broker
    pool.close(broker)


@pytest.fixture
def odradek_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Several brokers as one cluster, three unless the marker says how many, with the topics of the test's marker.

    Tests after each other that ask for the same share it.

    A cluster in which a test ended a broker, or isolated one and did not heal it, is replaced by a new one.
    """
    wanted = MarkerOptions.of(request.node)
    cluster = _cluster_for(request, wanted)
    with cleaned(request, cluster):
        made_by(request.node).extend(cluster.topic(name, **given) for name, given in wanted.topics.items())
        yield cluster


@pytest.fixture
def odradek_client_config(odradek: Controls) -> Callable[..., dict[str, Any]]:
    """`odradek_client_config(kind)`: the configuration of a client of the test's broker.

    `kind` is "aiokafka", "confluent", "kafka-python" or "java"; what else is named is added.
    """
    return odradek.client_config


def _cluster_for(request: pytest.FixtureRequest, wanted: MarkerOptions) -> Cluster:
    options = Options.of(request.config)
    options.require_own("a cluster is several brokers that are started")
    settings = {**options.settings, **wanted.settings}
    return pool_of(request.config).cluster(wanted.brokers or CLUSTER_SIZE, settings, **wanted.options)


def _broker_for(request: pytest.FixtureRequest, wanted: MarkerOptions) -> Controls:
    if wanted.brokers:
        _require_no_bootstrap(request)
        return _cluster_for(request, wanted)
    if not wanted.needs_own:
        shared: Controls = request.getfixturevalue("odradek_broker")
        return shared
    options = Options.of(request.config)
    options.require_own("what the marker asks for needs a broker of its own")
    _require_no_bootstrap(request)
    return pool_of(request.config).like({**options.settings, **wanted.settings}, **wanted.options)


def _require_no_bootstrap(request: pytest.FixtureRequest) -> None:
    if "odradek_bootstrap" in request.fixturenames:
        raise pytest.UsageError(
            "odradek_bootstrap is that of the session's broker, and the marker asks for another one: use "
            "odradek.bootstrap_servers or odradek_client_config"
        )


def _remote(options: Options) -> RemoteBroker:
    if options.control is None:
        raise pytest.UsageError(
            "--odradek-control URL is missing: with --odradek-bootstrap alone there is only odradek_bootstrap"
        )
    bootstrap = options.bootstrap
    if bootstrap is None:
        status = ControlClient(options.control, options.token).get("/status")
        bootstrap = next(iter(status["listeners"].values()))
    return RemoteBroker(bootstrap, options.control, token=options.token)
